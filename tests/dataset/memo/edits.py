"""Edits a user makes between two runs, and whether the work must then run again: one table for every test of recall.

Each text defines `f(x)`, mapped over a column of integers. A text stands alone: a module of the user's own is made by
`module()`, which every text may call; so is an installed library, with `library()`.
"""

# ruff: noqa: E501  a text broken over lines hides what is edited
from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    name: str
    before: str
    after: str
    reruns: bool
    opaque: bool = False  # it cannot be seen whether anything changed


PRELUDE = """
import importlib.metadata, sys, types

def module(name, text, file=None):
    made = types.ModuleType(name)
    if file:
        made.__file__ = file
    exec(compile(text, file or "<made>", "exec"), made.__dict__)
    sys.modules[name] = made
    return made

def library(name, version, text):
    real = importlib.metadata.version
    importlib.metadata.version = lambda each: version if each == name else real(each)
    return module(name, text, f"/somewhere/site-packages/{name}.py")
"""


def edit(name: str, text: str, old: str, new: str, *, reruns: bool = True) -> Case:
    assert text.count(old) == 1, f"{name}: {old!r} stands {text.count(old)} times"
    return Case(name, PRELUDE + text, PRELUDE + text.replace(old, new), reruns)


def unseen(name: str, text: str, old: str, new: str) -> Case:
    return edit(name, text, old, new)._replace(opaque=True)


def kept(name: str, before: str, after: str) -> Case:
    assert before != after, name
    return Case(name, PRELUDE + before, PRELUDE + after, reruns=False)


CODE = [
    edit("constant in a function", "def f(x):\n    return x * 2\n", "2", "3"),
    edit("constant in a lambda", "f = lambda x: x * 2\n", "2", "3"),
    edit("one of two lambdas on a line", "f, g = lambda x: x * 2, lambda x: x * 5\n", "2", "3"),
    edit("nested lambda", "f = lambda x: (lambda y: y + 1)(x)\n", "1", "2"),
    edit("int to float", "f = lambda x: x * 2\n", "2", "2.0"),
    edit("int to bool", "f = lambda x: x + 1\n", "1", "True"),
    edit("zero to minus zero", "f = lambda x: x * 0.0\n", "0.0", "-0.0"),
    edit("text to bytes", "f = lambda x: 'a'\n", "'a'", "b'a'"),
    edit("operator", "f = lambda x: x + 2\n", "+", "-"),
    edit("in-place operator", "def f(x):\n    x += 2\n    return x\n", "+=", "-="),
    edit("order of operands", "f = lambda x: x - 7 if x else 0\n", "x - 7", "7 - x"),
    edit("comparison", "f = lambda x: x < 2\n", "<", "<="),
    edit("is to is not", "f = lambda x: x is None\n", "is None", "is not None"),
    edit("in to not in", "f = lambda x: x in (1, 2)\n", "x in", "x not in"),
    edit("and to or", "f = lambda x: x and 5\n", "and", "or"),
    edit("branches swapped", "f = lambda x: 1 if x else 2\n", "1 if x else 2", "2 if x else 1"),
    edit("text of an f-string", "f = lambda x: f'{x} cats'\n", "cats", "dogs"),
    edit("format of an f-string", "f = lambda x: f'{x:03d}'\n", "03d", "04d"),
    edit("conversion of an f-string", "f = lambda x: f'{x!s}'\n", "!s", "!r"),
    edit("bound of a loop", "def f(x):\n    for i in range(3):\n        x += i\n    return x\n", "3", "4"),
    edit(
        "break to continue", "def f(x):\n    for i in range(3):\n        break\n    return x + i\n", "break", "continue"
    ),
    edit(
        "exception caught",
        "def f(x):\n    try:\n        return 1 / x\n    except ValueError:\n        return 0\n",
        "ValueError",
        "ZeroDivisionError",
    ),
    Case(
        "a line moved into a try",
        "def g(x):\n    return x\ndef f(x):\n    y = g(x)\n    try:\n        return g(y)\n    except KeyError:\n        return 0\n",
        "def g(x):\n    return x\ndef f(x):\n    try:\n        y = g(x)\n        return g(y)\n    except KeyError:\n        return 0\n",
        reruns=True,
    ),
    edit("finally body", "def f(x):\n    try:\n        return x\n    finally:\n        print(1, end='')\n", "1", "2"),
    edit("sync to async", "def f(x):\n    return x\n", "def f", "async def f"),
    edit("return to yield", "def f(x):\n    return x\n", "return", "yield"),
    edit("what a generator yields", "def f(x):\n    yield x\n    yield 1\n", "1", "2"),
    edit("yield to yield from", "def f(x):\n    yield (x,)\n", "yield", "yield from"),
    edit("walrus", "f = lambda x: (y := x + 1) + y\n", "1", "2"),
    edit(
        "star arguments", "def g(*a):\n    return len(a)\ndef f(x):\n    return g((x, 1))\n", "g((x, 1))", "g(*(x, 1))"
    ),
    edit("keyword in a call", "f = lambda x: sorted(dict(a=x))\n", "a=x", "b=x"),
    edit("attribute", "f = lambda x: x.real\n", "real", "imag"),
    edit("method", "f = lambda x: str(x).upper()\n", "upper", "lower"),
    edit("index", "f = lambda x: (x, 1, 2)[0]\n", "[0]", "[1]"),
    edit("slice", "f = lambda x: str(x)[:1]\n", "[:1]", "[1:]"),
    edit("comprehension filter", "f = lambda x: [i for i in range(x) if i % 2]\n", "% 2", "% 3"),
    edit("list to generator", "f = lambda x: list([i for i in (x,)])\n", "[i for i in (x,)]", "(i for i in (x,))"),
    edit("unpacking", "def f(x):\n    a, *b = x, 1, 2\n    return b\n", "a, *b", "*b, a"),
    edit(
        "pattern of a match",
        "def f(x):\n    match x:\n        case 1:\n            return 5\n    return 0\n",
        "case 1",
        "case 2",
    ),
    edit("assertion", "def f(x):\n    assert x >= 0\n    return x\n", ">= 0", ">= -1"),
    edit("built-in called", "f = lambda x: min(x, 2)\n", "min", "max"),
    edit("set in the code", "f = lambda x: x in {1, 2, 'a'}\n", "'a'", "'b'"),
    edit(
        "line moved into a branch",
        "def f(x):\n    if x > 1:\n        x += 1\n    x += 2\n    return x\n",
        "    x += 2",
        "        x += 2",
    ),
    edit(
        "line moved out of an else",
        "def f(x):\n    if x > 1:\n        x += 1\n    else:\n        x += 2\n    return x\n",
        "    else:\n        x += 2",
        "    x += 2",
    ),
    edit("positional only", "def f(x):\n    return x\n", "(x)", "(x, /)"),
    edit("star parameter", "def f(x):\n    return x\n", "(x)", "(*x)"),
    edit("parameter name", "f = lambda x: 1\n", "lambda x", "lambda y"),
    edit("nested function", "def f(x):\n    def g(y):\n        return y + 1\n    return g(x)\n", "1", "2"),
    edit("nested class", "def f(x):\n    class A:\n        k = 1\n    return A.k + x\n", "k = 1", "k = 2"),
    edit(
        "nonlocal",
        "def f(x):\n    k = 1\n    def g():\n        nonlocal k\n        k += x\n    g()\n    return k\n",
        "+= x",
        "-= x",
    ),
    edit(
        "name of a local (it may be read by locals())",
        "def f(x):\n    y = x\n    return len(locals())\n",
        "y = x",
        "z = x",
    ),
]

REACHED = [
    edit("global", "K = 2\ndef f(x):\n    return x * K\n", "2", "3"),
    edit("global bound again", "K = 2\ndef f(x):\n    return x * K\n", "K = 2", "K = 2\nK = 3"),
    edit("global of a nested lambda", "K = 2\nf = lambda x: (lambda: K)() + x\n", "2", "3"),
    edit("global in a comprehension", "K = 2\nf = lambda x: [i * K for i in (x,)]\n", "2", "3"),
    edit("built-in hidden by a global", "def g(x):\n    return 5\nf = lambda x: len(str(x))\n", "def g", "def len"),
    edit("helper", "def g(x):\n    return x + 1\ndef f(x):\n    return g(x)\n", "1", "2"),
    edit(
        "global two helpers deep",
        "K = 2\ndef h(x):\n    return x * K\ndef g(x):\n    return h(x)\ndef f(x):\n    return g(x)\n",
        "2",
        "3",
    ),
    edit(
        "one of two that call each other",
        "def f(x):\n    return g(x - 1) if x > 0 else 0\ndef g(x):\n    return f(x - 1) if x > 0 else 1\n",
        "else 1",
        "else 2",
    ),
    edit("default", "def f(x, k=2):\n    return x * k\n", "2", "3"),
    edit("keyword default", "def f(x, *, k=2):\n    return x * k\n", "2", "3"),
    edit("mutable default", "def f(x, k=[1, 2]):\n    return x + k[0]\n", "[1, 2]", "[2, 2]"),
    edit(
        "default of a nested function",
        "def f(x):\n    def g(k=1):\n        return k\n    return g() + x\n",
        "k=1",
        "k=2",
    ),
    edit("closure", "def make(k):\n    return lambda x: x * k\nf = make(2)\n", "2", "3"),
    edit(
        "closure of a closure",
        "def make(k):\n    def g():\n        return k\n    return lambda x: g() + x\nf = make(2)\n",
        "2",
        "3",
    ),
    edit("function in a closure", "def make(g):\n    return lambda x: g(x)\nf = make(lambda y: y + 1)\n", "1", "2"),
    edit("function in a dict", "TABLE = {'a': lambda x: x + 1}\nf = lambda x: TABLE['a'](x)\n", "+ 1", "+ 2"),
    edit("entry of a dict", "D = {'a': 1, 'b': [1, {'c': 2}]}\nf = lambda x: D['b'][0] + x\n", "'c': 2", "'c': 3"),
    edit(
        "order of a dict (a loop meets it)",
        "D = {'a': 1, 'b': 1}\nf = lambda x: list(D)[0]\n",
        "'a': 1, 'b': 1",
        "'b': 1, 'a': 1",
    ),
    edit("item of a list", "L = [1, 2]\nf = lambda x: L[0] + x\n", "[1, 2]", "[2, 2]"),
    edit("list to tuple", "L = [1, 2]\nf = lambda x: len(L) + x\n", "[1, 2]", "(1, 2)"),
    edit("member of a set", "S = {'a', 'b', 'c'}\nf = lambda x: x in S\n", "'c'", "'d'"),
    edit("list changed after it was made", "L = [1]\nf = lambda x: L[0] + x\n", "L = [1]", "L = [1]\nL.append(2)"),
    edit("attribute of a function", "def f(x):\n    return x + f.k\nf.k = 1\n", "k = 1", "k = 2"),
    edit(
        "name defined only now",
        "def f(x):\n    return g(x) if x > 5 else 0\n",
        "def f",
        "def g(x):\n    return 1\ndef f",
    ),
    edit("partial argument", "from functools import partial\nf = partial(lambda k, x: k * x, 2)\n", ", 2)", ", 3)"),
    edit("partial keyword", "from functools import partial\nf = partial(lambda x, k: k * x, k=2)\n", "2", "3"),
    edit(
        "function of a partial", "from functools import partial\nf = partial(lambda k, x: k * x, 2)\n", "k * x", "k + x"
    ),
    edit(
        "decorator body",
        "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def inner(x):\n        return g(x) + 1\n    return inner\n"
        "@deco\ndef f(x):\n    return x\n",
        "+ 1",
        "+ 2",
    ),
    edit(
        "decorated body",
        "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def inner(x):\n        return g(x) + 1\n    return inner\n"
        "@deco\ndef f(x):\n    return x * 7\n",
        "7",
        "8",
    ),
    edit(
        "decorator argument",
        "def deco(k):\n    def outer(g):\n        return lambda x: g(x) + k\n    return outer\n@deco(1)\ndef f(x):\n    return x\n",
        "deco(1)",
        "deco(2)",
    ),
    edit("function under lru_cache", "import functools\n@functools.lru_cache\ndef f(x):\n    return x + 1\n", "1", "2"),
    edit(
        "function under a context manager of the library",
        "import contextlib\n@contextlib.contextmanager\ndef g():\n    yield 1\ndef f(x):\n    with g() as k:\n        return x + k\n",
        "yield 1",
        "yield 2",
    ),
    edit(
        "registered for a type",
        "import functools\n@functools.singledispatch\ndef f(x):\n    return 0\n@f.register\ndef _(x: int):\n    return 1\n",
        "return 1",
        "return 2",
    ),
    edit(
        "annotation of a parameter (it says as what a value is handed over)",
        "def f(x: int):\n    return x\n",
        "x: int",
        "x: float",
    ),
]

CLASSES = [
    unseen(
        "a subclass that is found by its base",
        "class A: pass\nclass B(A):\n    k = 1\ndef f(x):\n    return sum(each.k for each in A.__subclasses__())\n",
        "1",
        "2",
    ),
    unseen(
        "a subclass that an inner function finds",
        "class A:\n    @classmethod\n    def all(cls): return (lambda: cls.__subclasses__())()\nclass B(A):\n    k = 1\nf = lambda x: A.all()[0].k\n",
        "k = 1",
        "k = 2",
    ),
    edit("method", "class A:\n    def run(self, x):\n        return x + 1\nf = A().run\n", "1", "2"),
    edit(
        "method of a helper object",
        "class A:\n    def run(self, x):\n        return x + 1\na = A()\nf = lambda x: a.run(x)\n",
        "1",
        "2",
    ),
    edit(
        "method of a base class",
        "class B:\n    def run(self, x):\n        return x + 1\nclass A(B):\n    pass\nf = lambda x: A().run(x)\n",
        "1",
        "2",
    ),
    edit(
        "base class",
        "class B:\n    k = 1\nclass C:\n    k = 1\nclass A(B):\n    pass\nf = lambda x: A.k + x\n",
        "A(B)",
        "A(C)",
    ),
    edit(
        "super",
        "class B:\n    def run(self):\n        return 1\nclass A(B):\n    def run(self):\n        return super().run()\n"
        "f = lambda x: A().run() + x\n",
        "return 1",
        "return 2",
    ),
    edit("class attribute", "class A:\n    k = 1\nf = lambda x: A.k + x\n", "1", "2"),
    edit(
        "property", "class A:\n    @property\n    def k(self):\n        return 1\nf = lambda x: A().k + x\n", "1", "2"
    ),
    edit(
        "cached property",
        "import functools\nclass A:\n    @functools.cached_property\n    def k(self):\n        return 1\n"
        "f = lambda x: A().k + x\n",
        "1",
        "2",
    ),
    edit(
        "static method",
        "class A:\n    @staticmethod\n    def k():\n        return 1\nf = lambda x: A.k() + x\n",
        "1",
        "2",
    ),
    edit(
        "class method",
        "class A:\n    @classmethod\n    def k(cls):\n        return 1\nf = lambda x: A.k() + x\n",
        "1",
        "2",
    ),
    edit(
        "static to class method",
        "class A:\n    @staticmethod\n    def k(c=1):\n        return c\nf = lambda x: A.k()\n",
        "static",
        "class",
    ),
    edit(
        "metaclass",
        "class M(type):\n    def k(cls):\n        return 1\nclass A(metaclass=M):\n    pass\nf = lambda x: A.k() + x\n",
        "1",
        "2",
    ),
    edit(
        "state of a callable",
        "class A:\n    def __init__(self, k):\n        self.k = k\n    def __call__(self, x):\n        return x * self.k\n"
        "f = A(2)\n",
        "A(2)",
        "A(3)",
    ),
    edit(
        "state of a bound method",
        "class A:\n    def __init__(self, k):\n        self.k = k\n    def run(self, x):\n        return x * self.k\n"
        "f = A(2).run\n",
        "A(2)",
        "A(3)",
    ),
    edit(
        "state in slots",
        "class A:\n    __slots__ = ('k',)\n    def __init__(self, k):\n        self.k = k\n    def __call__(self, x):\n"
        "        return x * self.k\nf = A(2)\n",
        "A(2)",
        "A(3)",
    ),
    edit(
        "state two objects deep",
        "class A:\n    def __init__(self, k):\n        self.k = k\na = A([A(2)])\nf = lambda x: a.k[0].k + x\n",
        "A(2)",
        "A(3)",
    ),
    edit("state of a dict of one's own", "class A(dict):\n    pass\na = A(k=2)\nf = lambda x: a['k'] + x\n", "2", "3"),
    edit(
        "dataclass default",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    k: int = 1\nf = lambda x: A().k + x\n",
        "1",
        "2",
    ),
    edit(
        "dataclass factory",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    k: list = dataclasses.field(default_factory=lambda: [1])\n"
        "f = lambda x: A().k[0] + x\n",
        "[1]",
        "[2]",
    ),
    edit(
        "dataclass value",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    k: int = 1\na = A(5)\nf = lambda x: a.k + x\n",
        "5",
        "6",
    ),
    edit(
        "frozen dataclass",
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass A:\n    k: int = 1\nf = lambda x: A(x).k\n",
        "frozen=True",
        "frozen=False",
    ),
    edit(
        "named tuple",
        "from typing import NamedTuple\nclass A(NamedTuple):\n    k: int = 1\nf = lambda x: A().k + x\n",
        "1",
        "2",
    ),
    edit("enum value", "import enum\nclass E(enum.Enum):\n    A = 1\nf = lambda x: E.A.value + x\n", "1", "2"),
    edit(
        "enum member used by value",
        "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nk = E.A\nf = lambda x: k.value + x\n",
        "k = E.A",
        "k = E.B",
    ),
    edit(
        "enum method",
        "import enum\nclass E(enum.Enum):\n    A = 1\n    def __str__(self):\n        return 'a'\nf = lambda x: str(E.A)\n",
        "'a'",
        "'b'",
    ),
    edit(
        "enum order",
        "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nf = lambda x: list(E)[0].name\n",
        "A = 1\n    B = 2",
        "B = 2\n    A = 1",
    ),
    edit(
        "abstract method",
        "import abc\nclass B(abc.ABC):\n    @abc.abstractmethod\n    def k(self):\n        return 1\n"
        "class A(B):\n    def k(self):\n        return super().k()\nf = lambda x: A().k() + x\n",
        "return 1",
        "return 2",
    ),
    edit(
        "pydantic default",
        "import pydantic\nclass M(pydantic.BaseModel):\n    k: int = 1\nf = lambda x: M().k + x\n",
        "1",
        "2",
    ),
    edit(
        "pydantic constraint",
        "import pydantic\nclass M(pydantic.BaseModel):\n    k: int = pydantic.Field(1, ge=0)\nf = lambda x: M().k + x\n",
        "ge=0",
        "ge=1",
    ),
    edit(
        "pydantic validator",
        "import pydantic\nclass M(pydantic.BaseModel):\n    k: int\n    @pydantic.field_validator('k')\n    @classmethod\n"
        "    def check(cls, v):\n        return v + 1\nf = lambda x: M(k=x).k\n",
        "1",
        "2",
    ),
    edit(
        "pydantic validator before",
        "import pydantic\nclass M(pydantic.BaseModel):\n    k: int\n    @pydantic.field_validator('k', mode='after')\n"
        "    @classmethod\n    def check(cls, v):\n        return v\nf = lambda x: M(k=x).k\n",
        "after",
        "before",
    ),
    edit(
        "pydantic docstring (a model is shown it)",
        "import pydantic\nclass M(pydantic.BaseModel):\n    '''A cat.'''\n    k: int = 1\n"
        "f = lambda x: str(M.model_json_schema())\n",
        "cat",
        "dog",
    ),
    edit(
        "pydantic value",
        "import pydantic\nclass M(pydantic.BaseModel):\n    k: int = 1\nm = M(k=5)\nf = lambda x: m.k + x\n",
        "5",
        "6",
    ),
    edit(
        "own __fingerprint__",
        "class A:\n    def __fingerprint__(self):\n        return 'v1'\na = A()\nf = lambda x: x if a else 0\n",
        "v1",
        "v2",
    ),
]

VALUES = [
    edit("array element", "import numpy as np\nA = np.array([1, 2, 3])\nf = lambda x: int(A[0]) + x\n", "3]", "4]"),
    edit(
        "array type",
        "import numpy as np\nA = np.array([1, 2], 'int32')\nf = lambda x: int(A[0]) + x\n",
        "int32",
        "int64",
    ),
    edit("array shape", "import numpy as np\nA = np.zeros((2, 3))\nf = lambda x: len(A) + x\n", "(2, 3)", "(3, 2)"),
    edit(
        "array of objects",
        "import numpy as np\nA = np.array(['a', None, 3], object)\nf = lambda x: str(A[2])\n",
        "3]",
        "4]",
    ),
    edit("array scalar", "import numpy as np\nK = np.float32(1)\nf = lambda x: float(K) + x\n", "(1)", "(2)"),
    edit(
        "state of a generator of numbers",
        "import numpy as np\nR = np.random.default_rng(1)\nf = lambda x: x + (R is None)\n",
        "(1)",
        "(2)",
    ),
    edit(
        "pandas cell",
        "import pandas as pd\nD = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\nf = lambda x: str(D.b[1])\n",
        "'y'",
        "'z'",
    ),
    edit(
        "pandas index",
        "import pandas as pd\nD = pd.DataFrame({'a': [1, 2]}, index=[1, 2])\nf = lambda x: len(D)\n",
        "index=[1, 2]",
        "index=[1, 3]",
    ),
    edit(
        "pandas column name",
        "import pandas as pd\nD = pd.DataFrame({'a': [1, 2]})\nf = lambda x: str(D.columns[0])\n",
        "'a'",
        "'b'",
    ),
    edit("polars cell", "import polars as pl\nD = pl.DataFrame({'a': [1, 2]})\nf = lambda x: D['a'][1]\n", "2]", "3]"),
    edit(
        "arrow cell", "import pyarrow as pa\nT = pa.table({'a': [1, 2]})\nf = lambda x: T['a'][1].as_py()\n", "2]", "3]"
    ),
    edit(
        "arrow schema",
        "import pyarrow as pa\nS = pa.schema([('a', pa.int64())])\nf = lambda x: str(S)\n",
        "int64",
        "int32",
    ),
    edit("regex", "import re\nR = re.compile('a+')\nf = lambda x: bool(R.match(str(x)))\n", "a+", "b+"),
    edit("regex flags", "import re\nR = re.compile('a', re.I)\nf = lambda x: bool(R.match(str(x)))\n", "re.I", "re.M"),
    edit("path", "from pathlib import Path\nP = Path('a/b')\nf = lambda x: P.name\n", "a/b", "a/c"),
    edit("datetime", "import datetime\nD = datetime.datetime(2020, 1, 1)\nf = lambda x: D.day + x\n", "1)", "2)"),
    edit(
        "time zone",
        "import datetime, zoneinfo\nZ = zoneinfo.ZoneInfo('UTC')\nf = lambda x: str(Z)\n",
        "'UTC'",
        "'Europe/Paris'",
    ),
    edit("decimal", "import decimal\nD = decimal.Decimal('1.0')\nf = lambda x: str(D + x)\n", "1.0", "1.00"),
    edit(
        "default dict",
        "import collections\nD = collections.defaultdict(int, a=1)\nf = lambda x: D['a'] + x\n",
        "1",
        "2",
    ),
    edit(
        "factory of a default dict",
        "import collections\nD = collections.defaultdict(int)\nf = lambda x: len(D) + x\n",
        "int",
        "list",
    ),
    edit("item getter", "import operator\ng = operator.itemgetter(0)\nf = lambda x: g((x, 1))\n", "(0)", "(1)"),
    edit("range", "R = range(3)\nf = lambda x: len(R) + x\n", "3", "4"),
    edit("bytearray", "B = bytearray(b'a')\nf = lambda x: B[0] + x\n", "b'a'", "b'b'"),
    edit("huge number", "N = 7 ** 9999\nf = lambda x: N % 10 + x\n", "9999", "9998"),
    edit("method of a text", "j = ', '.join\nf = lambda x: j([str(x)])\n", "', '", "'; '"),
    edit("class of the library", "K = int\nf = lambda x: K(x)\n", "int", "float"),
    edit("namespace", "import types\nN = types.SimpleNamespace(k=1)\nf = lambda x: N.k + x\n", "1", "2"),
]

MODULES = [
    edit("constant of a module of one's own", "m = module('mine', 'K = 2')\nf = lambda x: m.K + x\n", "2", "3"),
    edit(
        "function of a module of one's own",
        "m = module('mine', 'def g(x): return x + 1')\nf = lambda x: m.g(x)\n",
        "1",
        "2",
    ),
    edit(
        "constant behind a function of a module",
        "m = module('mine', 'K = 2\\ndef g(x): return x + K')\nf = lambda x: m.g(x)\n",
        "2",
        "3",
    ),
    edit(
        "module in a module",
        "n = module('inner', 'K = 2')\nm = module('mine', '')\nm.n = n\nf = lambda x: m.n.K + x\n",
        "2",
        "3",
    ),
    edit(
        "module imported in the function",
        "module('mine', 'K = 2')\ndef f(x):\n    import mine\n    return mine.K + x\n",
        "2",
        "3",
    ),
    edit(
        "module imported under another name",
        "module('mine', 'K = 2')\ndef f(x):\n    import mine as m\n    return m.K + x\n",
        "2",
        "3",
    ),
    edit(
        "name imported in the function",
        "module('mine', 'K = 2')\ndef f(x):\n    from mine import K\n    return K + x\n",
        "2",
        "3",
    ),
    edit(
        "name imported on a condition",
        "module('mine', 'K = 2')\ndef f(x):\n    if x:\n        from mine import K\n        return K\n    return 0\n",
        "2",
        "3",
    ),
    edit(
        "which name is imported",
        "module('mine', 'K = 2; J = 2')\ndef f(x):\n    from mine import K as k\n    return k + x\n",
        "import K",
        "import J",
    ),
    edit(
        "import that found nothing",
        "def f(x):\n    try:\n        import mine\n    except ImportError:\n        return 0\n    return mine.K\n",
        "def f",
        "module('mine', 'K = 2')\ndef f",
    ),
    edit(
        "module handed on to a name that is computed",
        "m = module('mine', 'def g1(): return 2')\nf = lambda x: getattr(m, 'g' + str(1))() + x\n",
        "return 2",
        "return 3",
    ),
    edit(
        "module found in sys.modules",
        "module('mine', 'def g(): return 2')\nf = lambda x: sys.modules['mine'].g() + x\n",
        "return 2",
        "return 3",
    ),
    edit(
        "module found in sys.modules, for a name that is computed, by an inner function",
        "module('mine', 'def g1(): return 2')\ndef f(x):\n    import sys\n    return (lambda: getattr(sys.modules['mine'], f'g{1}')())() + x\n",
        "return 2",
        "return 3",
    ),
    unseen(
        "module found in sys.modules by a name that is computed",
        "module('mine1', 'def g(): return 2')\nf = lambda x: sys.modules[f'mine{1}'].g() + x\n",
        "return 2",
        "return 3",
    ),
    unseen(
        "module found in sys.modules under other names",
        "from sys import modules as known\nmodule('mine', 'def g(): return 2')\nf = lambda x: known['mine'].g() + x\n",
        "return 2",
        "return 3",
    ),
    unseen(
        "module got from sys.modules",
        "import sys as s\nmodule('mine', 'def g(): return 2')\nf = lambda x: s.modules.get('mine').g() + x\n",
        "return 2",
        "return 3",
    ),
    edit("number put into a library", "import math\nmath.foo = 1\nf = lambda x: math.foo + x\n", "1", "2"),
    edit(
        "table put into a module of a library",
        "import os.path\nos.path.foo = {'a': [1]}\nf = lambda x: os.path.foo['a'][0] + x\n",
        "1",
        "2",
    ),
    edit(
        "function put into a library",
        "import math\nmath.foo = lambda x: x + 1\nf = lambda x: math.foo(x)\n",
        "1",
        "2",
    ),
    edit("module handed on whole", "m = module('mine', 'K = 2')\nf = lambda x: getattr(m, 'K') + x\n", "2", "3"),
    edit(
        "version of a library",
        "lib = library('mylib', '1.0', 'def g(x): return x')\nf = lambda x: lib.g(x)\n",
        "1.0",
        "1.1",
    ),
    edit(
        "version of a library by a function",
        "g = library('mylib', '1.0', 'def g(x): return x').g\nf = lambda x: g(x)\n",
        "1.0",
        "1.1",
    ),
    edit(
        "version of a library by a class",
        "C = library('mylib', '1.0', 'class C:\\n    k = 1').C\nC.__module__ = 'mylib'\nf = lambda x: C.k + x\n",
        "1.0",
        "1.1",
    ),
    edit(
        "function under a library's decorator",
        "deco = library('mylib', '1.0', 'def deco(g):\\n    def inner(x): return g(x)\\n    return inner').deco\n@deco\ndef f(x):\n    return x + 7\n",
        "7",
        "8",
    ),
    edit("which function of a library", "import math\nf = lambda x: math.floor(x)\n", "floor", "ceil"),
]

MODEL = """
import numpy as np
class Tensor:
    def __init__(self, values):
        self.values = np.asarray(values, 'float32')
        self.dtype, self.shape, self.nbytes = self.values.dtype, self.values.shape, self.values.nbytes
    def detach(self): return self
    def cpu(self): return self
    def reshape(self, *shape): return Tensor(self.values.reshape(*shape))
    def __getitem__(self, at): return Tensor(self.values[at])
    def numpy(self): return self.values
class Layer:
    def __init__(self, weights, rate): self.weights, self.rate = Tensor(weights), rate
    def state_dict(self): return {'weights': self.weights}
    def named_modules(self): return [('', self)]
    def __call__(self, x): return float(self.weights.values[0]) * x * self.rate
"""
CLIENT = """
import threading
class Client:
    def __init__(self, name, revision, scale=1):
        self.lock = threading.Lock()
        self.name_or_path, self.revision, self.scale = name, revision, scale
"""
MODELS = [
    edit("weights", MODEL + "m = Layer([1, 2, 3], 5)\nf = lambda x: m(x)\n", "3]", "4]"),
    edit("attribute of a model", MODEL + "m = Layer([1, 2, 3], 5)\nf = lambda x: m(x)\n", "5)", "6)"),
    edit("class of a model", MODEL + "m = Layer([1, 2, 3], 5)\nf = lambda x: m(x)\n", "* x *", "+ x *"),
    edit("tensor", MODEL + "t = Tensor([1, 2, 3])\nf = lambda x: float(t.values[0]) + x\n", "3]", "4]"),
    edit(
        "name of a model", CLIENT + "c = Client('org/small', 'abc')\nf = lambda x: c.name_or_path\n", "small", "large"
    ),
    edit(
        "revision of a model", CLIENT + "c = Client('org/small', 'abc')\nf = lambda x: c.name_or_path\n", "abc", "abd"
    ),
    edit(
        "setting beside a model's name",
        CLIENT + "c = Client('org/small', 'abc', 1)\nf = lambda x: c.scale\n",
        "'abc', 1",
        "'abc', 2",
    ),
]

LONG = "def f(x):\n    total = sum([i for i in range(x) if i % 2 and i != 5])\n    return {'a': total, 'b': x}['a'] if x > 1 and x < 9 else 0\n"
LONG_SPREAD = """
def f(
    x,
):
    total = sum(
        [
            i
            for i in range(x)
            if i % 2

            and i != 5
        ]
    )

    return (
        {
            "a": total,
            "b": x,
        }["a"]
        if x > 1
        and x < 9
        else 0
    )
"""
KEPT = [
    kept("comment", "def f(x):\n    return x\n", "def f(x):\n    # why\n    return x  # so\n"),
    kept("docstring", "def f(x):\n    return x\n", "def f(x):\n    '''Says more.'''\n    return x\n"),
    kept(
        "docstring of a helper",
        "def g(x):\n    'a'\n    return x\ndef f(x):\n    return g(x)\n",
        "def g(x):\n    'b'\n    return x\ndef f(x):\n    return g(x)\n",
    ),
    kept(
        "docstring of a class",
        "class A:\n    'a'\n    k = 1\nf = lambda x: A.k\n",
        "class A:\n    'b'\n    k = 1\nf = lambda x: A.k\n",
    ),
    kept(
        "docstring of a nested function",
        "def f(x):\n    def g():\n        'a'\n    return x\n",
        "def f(x):\n    def g():\n        'b'\n    return x\n",
    ),
    kept(
        "docstring of a nested class",
        "def f(x):\n    class A:\n        'a'\n    return x\n",
        "def f(x):\n    class A:\n        'b'\n    return x\n",
    ),
    kept("blank lines", "def f(x):\n    y = x\n    return y\n", "def f(x):\n\n    y = x\n\n\n    return y\n"),
    kept("line numbers", "def f(x):\n    return x\n", "\n\n\n\ndef f(x):\n    return x\n"),
    kept("quotes", "f = lambda x: 'a'\n", 'f = lambda x: "a"\n'),
    kept("brackets", "f = lambda x: x + 1 * 2\n", "f = lambda x: (x + (1 * 2))\n"),
    kept("lines joined", "def f(x):\n    y = x; return y\n", "def f(x):\n    y = x\n    return y\n"),
    kept("layout", LONG, LONG_SPREAD),
    kept(
        "layout of a lambda",
        "f = lambda x: x + 1 if x else None\n",
        "f = (\n    lambda x:\n    x + 1\n    if x\n    else None\n)\n",
    ),
    kept(
        "layout of branches",
        "def f(x):\n    if x: return 1\n    else: return 2\n",
        "def f(x):\n    if x:\n        return 1\n    else:\n        return 2\n",
    ),
    kept(
        "layout of a try",
        "def f(x):\n    try: return 1 / x\n    except ZeroDivisionError: return 0\n",
        "def f(x):\n    try:\n\n        return 1 / x\n    # none\n    except ZeroDivisionError:\n        return 0\n",
    ),
    kept("trailing comma", "f = lambda x: max(x, 1)\n", "f = lambda x: max(x, 1,)\n"),
    kept("number written otherwise", "f = lambda x: x + 1000\n", "f = lambda x: x + 1_000\n"),
    kept(
        "elif written out",
        "def f(x):\n    if x:\n        return 1\n    elif x is None:\n        return 2\n    return 3\n",
        "def f(x):\n    if x:\n        return 1\n    else:\n        if x is None:\n            return 2\n    return 3\n",
    ),
    kept("function name", "def f(x):\n    return x\n", "def other(x):\n    return x\nf = other\n"),
    kept("a function that becomes a lambda", "def f(x):\n    return x + 1\n", "f = lambda x: x + 1\n"),
    kept(
        "name of a function with a nested class",
        "def f(x):\n    class A:\n        k = 1\n    return A.k\n",
        "def g(x):\n    class A:\n        k = 1\n    return A.k\nf = g\n",
    ),
    kept("annotation of a local", "def f(x):\n    y = x\n    return y\n", "def f(x):\n    y: int = x\n    return y\n"),
    kept(
        "annotation of a helper",
        "def g(x):\n    return x\ndef f(x):\n    return g(x)\n",
        "def g(x: int) -> int:\n    return x\ndef f(x):\n    return g(x)\n",
    ),
    kept("unrelated global", "K = 1\ndef f(x):\n    return x\n", "K = 2\nJ = 3\ndef f(x):\n    return x\n"),
    kept(
        "unrelated function",
        "def g(x):\n    return 1\ndef f(x):\n    return x\n",
        "def g(x):\n    return 2\ndef f(x):\n    return x\n",
    ),
    kept(
        "unrelated function of a module",
        "m = module('mine', 'K = 2\\ndef g(): return 1')\nf = lambda x: m.K + x\n",
        "m = module('mine', 'K = 2\\ndef g(): return 2')\nf = lambda x: m.K + x\n",
    ),
    kept("unrelated import", "def f(x):\n    return x\n", "import json\ndef f(x):\n    return x\n"),
    kept(
        "import in another cell",
        "import math\nf = lambda x: math.floor(x)\n",
        "exec('import math')\nf = lambda x: math.floor(x)\n",
    ),
    kept(
        "unrelated name of a module imported in the function",
        "module('mine', 'K = 2; J = 1')\ndef f(x):\n    import mine\n    return mine.K\n",
        "module('mine', 'K = 2; J = 2')\ndef f(x):\n    import mine\n    return mine.K\n",
    ),
    kept(
        "order of definitions",
        "K = 2\ndef g(x):\n    return x * K\ndef f(x):\n    return g(x)\n",
        "def f(x):\n    return g(x)\ndef g(x):\n    return x * K\nK = 2\n",
    ),
    kept(
        "order of a set in the code",
        "f = lambda x: x in {'a', 'b', 'c', 'd'}\n",
        "f = lambda x: x in {'d', 'c', 'b', 'a'}\n",
    ),
    kept(
        "order of a set",
        "S = {'a', 'b', 'c', 'd'}\nf = lambda x: x in S\n",
        "S = {'d', 'b', 'a', 'c'}\nf = lambda x: x in S\n",
    ),
    kept(
        "order of a set of classes",
        "class A: pass\nclass B: pass\nS = {A, B}\nf = lambda x: len(S)\n",
        "class B: pass\nclass A: pass\nS = {B, A}\nf = lambda x: len(S)\n",
    ),
    kept(
        "order of methods",
        "class A:\n    def a(self): return 1\n    def b(self): return 2\nf = lambda x: A().a()\n",
        "class A:\n    def b(self): return 2\n    def a(self): return 1\nf = lambda x: A().a()\n",
    ),
    kept("defined twice", "def f(x):\n    return x\n", "def f(x):\n    return x\ndef f(x):\n    return x\n"),
    kept(
        "state of an unrelated object",
        "class A: pass\na, b = A(), A()\na.k, b.k = 1, 1\nf = lambda x: a.k\n",
        "class A: pass\na, b = A(), A()\na.k, b.k = 1, 2\nf = lambda x: a.k\n",
    ),
    kept("a global that is equal", "K = 4\nf = lambda x: x * K\n", "K = 2 + 2\nf = lambda x: x * K\n"),
    kept(
        "array cut out of a larger one",
        "import numpy as np\nA = np.arange(4)\nf = lambda x: int(A[0])\n",
        "import numpy as np\nA = np.arange(8)[:4]\nf = lambda x: int(A[0])\n",
    ),
    kept(
        "chunks of a table",
        "import pyarrow as pa\nT = pa.table({'a': [1, 2]})\nf = lambda x: len(T)\n",
        "import pyarrow as pa\nT = pa.concat_tables([pa.table({'a': [1]}), pa.table({'a': [2]})])\nf = lambda x: len(T)\n",
    ),
    kept(
        "what lru_cache remembers",
        "import functools\n@functools.lru_cache\ndef g(x): return x\nf = lambda x: g(x)\n",
        "import functools\n@functools.lru_cache\ndef g(x): return x\nf = lambda x: g(x)\ng(1)\n",
    ),
    kept(
        "name of a logger",
        "import logging\nlog = logging.getLogger('a')\ndef f(x):\n    log.debug(x)\n    return x\n",
        "import logging\nlog = logging.getLogger('b')\ndef f(x):\n    log.debug(x)\n    return x\n",
    ),
    kept(
        "another number put into a library",
        "import math\nmath.foo, math.bar = 1, 1\nf = lambda x: math.foo + math.floor(x)\n",
        "import math\nmath.foo, math.bar = 1, 2\nf = lambda x: math.foo + math.floor(x)\n",
    ),
    kept(
        "inside of a library of the same version",
        "lib = library('mylib', '1.0', 'def g(x): return x')\nf = lambda x: lib.g(x)\n",
        "lib = library('mylib', '1.0', 'def g(x): return +x')\nf = lambda x: lib.g(x)\n",
    ),
    kept(
        "moved to a module",
        "def g(x):\n    return x + 1\nf = lambda x: g(x)\n",
        "g = module('mine', 'def g(x):\\n    return x + 1').g\nf = lambda x: g(x)\n",
    ),
]

CASES: list[Case] = [*CODE, *REACHED, *CLASSES, *VALUES, *MODULES, *MODELS, *KEPT]
