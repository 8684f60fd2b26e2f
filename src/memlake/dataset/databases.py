"""Rows from and to other people's databases, by DB-API or SQLAlchemy. Names stand in the quotes of their dialect."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from memlake.dataset import export
from memlake.errors import InvalidInput
from memlake.identifiers import check_name
from memlake.named_tuple import NamedTuple
from memlake.rows.sql import Sql, compose, join, several, template, within

_TABLE = re.compile(r"[^\W\d][\w$.]*")
_SQL_TYPES = {
    "whole": template("BIGINT"),
    "float": template("DOUBLE PRECISION"),
    "bytes": template("BLOB"),
    "text": template("TEXT"),
}


class Dialect(NamedTuple):
    """How a DB-API driver writes a name, and the place of a value: its `paramstyle`, as PEP 249 calls it."""

    mark: str
    style: str

    def name(self, *names: str) -> Sql:
        return join(".", (within(name, self.mark) for name in names))

    def text(self, sql: Sql) -> str:
        """Where values have the place %s, a % that is part of a name stands twice."""
        text = sql.render().text
        return text.replace("%", "%%") if "format" in self.style else text

    def places(self, count: int) -> str:
        marks = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}"}
        if self.style not in marks:
            raise InvalidInput(
                f"the driver takes values by {self.style!r}, which memlake does not write. Nothing was written.",
                hint="Give a SQLAlchemy engine: sqlalchemy.create_engine(...)",
            )
        return ", ".join(marks[self.style].replace("{}", str(i + 1)) for i in range(count))


def dialect_of(connection: Any) -> Dialect:
    driver, style = _find_driver(connection)
    return Dialect("`" if re.search("mysql|maria", driver, re.I) else '"', style)


def _find_driver(connection: Any) -> tuple[str, str]:
    """The module that tells a paramstyle, the innermost first: that of MySQL is mysql.connector, not mysql."""
    for kind in type(connection).__mro__:  # a class of the user's own may be built on one of the driver's
        parts = kind.__module__.split(".")
        for end in range(len(parts), 0, -1):
            name = ".".join(parts[:end])
            if isinstance(style := getattr(sys.modules.get(name), "paramstyle", None), str):
                return name, style
    return type(connection).__module__.partition(".")[0], "qmark"


def read(query: str, connection: Any, params: Any) -> tuple[list[str], list[Sequence[Any]]]:
    """The columns and rows of a query, or of the table a word names."""
    if hasattr(connection, "connect") and hasattr(connection, "dialect"):  # a SQLAlchemy engine
        with connection.connect() as opened:
            return read(query, opened, params)
    table = query.strip().split(".") if _TABLE.fullmatch(query.strip()) else None
    if hasattr(connection, "exec_driver_sql"):
        import sqlalchemy

        statement: Any = sqlalchemy.text(query)
        if table is not None:
            schema = ".".join(table[:-1]) or None
            source = sqlalchemy.table(table[-1], schema=schema)
            statement = sqlalchemy.select(sqlalchemy.text("*")).select_from(source)
        result = connection.execute(statement, params or {})
        return list(result.keys()), [tuple(row) for row in result.fetchall()]
    _check_connection(connection, "read")
    if table is not None:
        dialect = dialect_of(connection)
        query = compose("SELECT * FROM {}", dialect.name(*table)).render().text
    cursor = connection.cursor()
    cursor.execute(query, *(() if params is None else (params,)))
    if cursor.description is None:
        raise InvalidInput(f"{query!r} gives no rows.", hint="Name a table, or write a query: SELECT ...")
    return [one[0] for one in cursor.description], cursor.fetchall()


def _check_connection(connection: Any, done: str) -> None:
    if not hasattr(connection, "cursor"):
        raise InvalidInput(
            f"the connection is {type(connection).__name__}, not a DB-API connection or a SQLAlchemy engine. "
            f"Nothing was {done}.",
            hint='Open it first: sqlite3.connect("data.db"), or sqlalchemy.create_engine(url)',
        )


def write(batches: Iterator[pa.RecordBatch], table: str, connection: Any, size: int, if_exists: str) -> int:
    """Insert rows, in one transaction; but MySQL and Oracle end one at a DROP, so there `replace` cannot be undone."""
    check_name(table, "table")
    if if_exists not in ("append", "replace", "fail"):
        raise InvalidInput(f"if_exists is {if_exists!r}; it takes append, replace or fail.")
    if hasattr(connection, "dialect") or hasattr(connection, "engine"):
        return _by_sqlalchemy(batches, table, connection, size, if_exists)
    _check_connection(connection, "written")
    dialect, cursor = dialect_of(connection), connection.cursor()
    count, is_made, began = 0, False, False
    try:
        for batch in batches:
            flat = export.flatten_nested(pa.Table.from_batches([batch]))
            columns = several(dialect.name(one) for one in flat.column_names)
            into = dialect.text(compose("INSERT INTO {} ({})", dialect.name(table), columns))
            sql = f"{into} VALUES ({dialect.places(flat.num_columns)})"
            rows = [tuple(_storable(value) for value in row.values()) for row in flat.to_pylist()]
            if not is_made:  # what can be refused without the database is refused by now
                began = _begin(connection)
                _make_table(cursor, dialect, table, flat.schema, if_exists)
                is_made = True
            for at in range(0, len(rows), size):
                cursor.executemany(sql, rows[at : at + size])
            count += len(rows)
        _end(connection, "commit", began=began)
    except BaseException:
        _end(connection, "rollback", began=began)
        raise
    return count


def _begin(connection: Any) -> bool:
    """Open a transaction where sqlite3 would not: it opens one for rows, but not to drop or make a table."""
    is_sqlite = hasattr(connection, "isolation_level") and hasattr(connection, "in_transaction")
    if not is_sqlite or connection.in_transaction:
        return False
    connection.cursor().execute("BEGIN")
    return True


def _end(connection: Any, verb: Literal["commit", "rollback"], *, began: bool) -> None:
    getattr(connection, verb)()
    if began and connection.in_transaction:  # with autocommit=True the method of sqlite3 does nothing
        connection.cursor().execute(verb)


def _make_table(cursor: Any, dialect: Dialect, table: str, schema: pa.Schema, if_exists: str) -> None:
    name = dialect.name(table)
    if if_exists == "replace":
        cursor.execute(compose("DROP TABLE IF EXISTS {}", name).render().text)
    columns = several(compose("{} {}", dialect.name(one.name), _SQL_TYPES[_family_of(one.type)]) for one in schema)
    form = template("CREATE TABLE {} ({})" if if_exists == "fail" else "CREATE TABLE IF NOT EXISTS {} ({})")
    cursor.execute(form.fill(name, columns).render().text)


def _family_of(kind: pa.DataType) -> Literal["whole", "float", "bytes", "text"]:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "whole"
    return "float" if pa.types.is_floating(kind) else "bytes" if pa.types.is_binary(kind) else "text"


def _storable(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value, default=export.jsonable)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _by_sqlalchemy(batches: Iterator[pa.RecordBatch], table: str, connection: Any, size: int, if_exists: str) -> int:
    alchemy = export.import_tool("sqlalchemy", "sqlalchemy")
    engine = connection if hasattr(connection, "begin") and not hasattr(connection, "in_transaction") else None
    count = 0
    with engine.begin() if engine is not None else connection.begin() as within:
        target = within if engine is not None else connection
        target_table = None
        for batch in batches:
            flat = export.flatten_nested(pa.Table.from_batches([batch]))
            if target_table is None:
                _begin(target.connection.dbapi_connection)
                target_table = _alchemy_table(alchemy, target, table, flat.schema, if_exists)
            rows = [{name: _storable(value) for name, value in row.items()} for row in flat.to_pylist()]
            for at in range(0, len(rows), size):
                target.execute(target_table.insert(), rows[at : at + size])
            count += len(rows)
    return count


def _alchemy_table(alchemy: Any, target: Any, name: str, schema: pa.Schema, if_exists: str) -> Any:
    types = {
        "whole": alchemy.BigInteger, "float": alchemy.Float, "bytes": alchemy.LargeBinary, "text": alchemy.Text,
    }  # fmt: skip
    columns = [alchemy.Column(one.name, types[_family_of(one.type)]) for one in schema]
    table = alchemy.Table(name, alchemy.MetaData(), *columns)
    if if_exists == "replace":
        table.drop(target, checkfirst=True)
    table.create(target, checkfirst=if_exists != "fail")
    return table
