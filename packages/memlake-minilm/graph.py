"""all-MiniLM-L6-v2 as an ONNX graph: six BERT layers, mean over the tokens, unit length. Knows no files.

`Exact` keeps the weights as they are. `Quantised` keeps int8 weights (a scale per output channel) and quantises what
flows in per token while it runs. The usual per-tensor operator (DynamicQuantizeLinear) would make a text's vector
depend on the texts beside it in the batch; here it does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

Array = np.ndarray[Any, Any]
Weights = Mapping[str, Array]

LAYERS, HEADS, WIDTH = 6, 12, 384
HEAD = WIDTH // HEADS
EPSILON = 1e-12
OPSET, IR = 20, 9  # the first with Gelu; every onnxruntime from 1.17 on reads it


class Exact:
    """A graph under construction, with float32 weights; every method returns the name of what it made."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{kind}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Array | np.generic) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def rows(self, table: Array, ids: str) -> str:
        return self.op("Gather", self.constant(table), ids)

    def linear(self, x: str, weight: Array, bias: Array) -> str:
        return self.op("Add", self.op("MatMul", x, self.constant(weight)), self.constant(bias))

    def norm(self, x: str, weights: Weights, name: str) -> str:
        scale, shift = (self.constant(weights[f"{name}.LayerNorm.{part}"]) for part in ("weight", "bias"))
        return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)


class Quantised(Exact):
    """The same with int8 tables and matrices.

    Weights use 7 of the 8 bits. Without VNNI a CPU adds two products in 16 bits: 2 * 255 * 63 fits, 2 * 255 * 127
    saturates without a word and gives other vectors than the next machine.
    """

    BITS7 = 63
    BITS8 = 127
    MIDDLE = 128

    def rows(self, table: Array, ids: str) -> str:
        small, scale = quantise(table, self.BITS8, axis=1)
        found = self.op("Cast", self.op("Gather", self.constant(small), ids), to=TensorProto.FLOAT)
        return self.op("Mul", found, self.op("Gather", self.constant(scale), ids))

    def linear(self, x: str, weight: Array, bias: Array) -> str:
        small, scale = quantise(weight, self.BITS7, axis=0)
        reach = self.reach(x)
        step = self.op("Mul", reach, self.constant(np.float32(1 / self.BITS8)))
        spread = self.op("Mul", x, self.op("Div", self.constant(np.float32(self.BITS8)), reach))
        rounded = self.op("Add", spread, self.constant(np.float32(self.MIDDLE + 0.5)))  # the cast cuts, so it rounds
        whole = self.op("Cast", rounded, to=TensorProto.UINT8)
        product = self.op("MatMulInteger", whole, self.constant(small), self.constant(np.uint8(self.MIDDLE)))
        real = self.op("Mul", self.op("Cast", product, to=TensorProto.FLOAT), self.constant(scale))
        return self.op("Add", self.op("Mul", real, step), self.constant(bias))

    def reach(self, x: str) -> str:
        """The largest absolute value of each row; a row of zeros has a tiny one, to divide by."""
        last = self.numbers(-1)
        low = self.op("Neg", self.op("ReduceMin", x, last))
        return self.op("Max", self.op("ReduceMax", x, last), low, self.constant(np.float32(1e-9)))


def quantise(weight: Array, top: int, *, axis: int) -> tuple[Array, Array]:
    """Whole numbers from -top to top, and the scale of each channel along the other axis."""
    scale = np.abs(weight).max(axis, keepdims=True) / np.float32(top)
    return np.rint(weight / scale).astype(np.int8), scale.astype(np.float32)


def build(weights: Weights, graph: Exact) -> ModelProto:
    """The whole model: token ids and mask in, one unit vector a text out."""
    mask = graph.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    x = embeddings(graph, weights)
    hidden = graph.op("Mul", graph.op("Sub", graph.constant(np.float32(1)), mask), graph.constant(np.float32(-1e9)))
    hidden = graph.op("Unsqueeze", hidden, graph.numbers(1, 2))
    for number in range(LAYERS):
        x = layer(graph, weights, f"encoder.layer.{number}", x, hidden)
    graph.nodes.append(helper.make_node("Identity", [pooled(graph, x, mask)], ["embedding"]))
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["B", "S"]) for n in ("input_ids", "attention_mask")]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["B", WIDTH])
    whole = helper.make_graph(graph.nodes, "minilm", inputs, [output], list(graph.constants.values()))
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    checker.check_model(model)
    return model


def embeddings(graph: Exact, weights: Weights) -> str:
    """Word, position and the one token type there is, added and normalised."""
    words = graph.rows(weights["embeddings.word_embeddings.weight"], "input_ids")
    places = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    length = graph.op("Shape", "input_ids", start=1, end=2)
    place = graph.op("Slice", graph.constant(places), graph.numbers(0), length, graph.numbers(0))
    return graph.norm(graph.op("Add", words, place), weights, "embeddings")


def layer(graph: Exact, weights: Weights, name: str, x: str, hidden: str) -> str:
    """One BERT layer: attention, then the two dense matrices, each added to its input and normalised."""
    found = attention(graph, weights, f"{name}.attention.self", x, hidden)
    found = dense(graph, weights, f"{name}.attention.output", found)
    x = graph.norm(graph.op("Add", found, x), weights, f"{name}.attention.output")
    wide = graph.op("Gelu", dense(graph, weights, f"{name}.intermediate", x))
    return graph.norm(graph.op("Add", dense(graph, weights, f"{name}.output", wide), x), weights, f"{name}.output")


def dense(graph: Exact, weights: Weights, name: str, x: str) -> str:
    return graph.linear(x, weights[f"{name}.dense.weight"].T, weights[f"{name}.dense.bias"])


def attention(graph: Exact, weights: Weights, name: str, x: str, hidden: str) -> str:
    """Query, key and value as one matrix product, then softmax(QK/sqrt)V for each head."""
    parts = ("query", "key", "value")
    weight = np.concatenate([weights[f"{name}.{part}.weight"].T for part in parts], axis=1)
    together = graph.linear(x, weight, np.concatenate([weights[f"{name}.{part}.bias"] for part in parts]))
    query, key, value = graph.op("Split", together, outputs=3, axis=-1, num_outputs=3)
    query, value = (heads(graph, one, [0, 2, 1, 3]) for one in (query, value))
    scores = graph.op("MatMul", query, heads(graph, key, [0, 2, 3, 1]))
    scores = graph.op("Add", graph.op("Mul", scores, graph.constant(np.float32(1 / math.sqrt(HEAD)))), hidden)
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
    return graph.op("Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), graph.numbers(0, 0, WIDTH))


def heads(graph: Exact, x: str, order: list[int]) -> str:
    return graph.op("Transpose", graph.op("Reshape", x, graph.numbers(0, 0, HEADS, HEAD)), perm=order)


def pooled(graph: Exact, x: str, mask: str) -> str:
    """The mean over the tokens that are there, at unit length."""
    present = graph.op("Mul", x, graph.op("Unsqueeze", mask, graph.numbers(2)))
    total = graph.op("ReduceSum", present, graph.numbers(1), keepdims=0)
    mean = graph.op("Div", total, graph.op("ReduceSum", mask, graph.numbers(1)))
    return graph.op("Div", mean, graph.op("ReduceL2", mean, graph.numbers(1)))
