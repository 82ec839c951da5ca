"""What goes wrong halfway is said, and nothing is answered from half a state."""

import pyarrow as pa
import pytest

import windrow as wr


def rows(*seconds: int) -> pa.Table:
    return pa.table(
        {"ts": pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us")), "k": [1] * len(seconds)}
    )


def query(**options) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", "5 s") for a in "ab"}, **{"on": "a.k = b.k"} | options)


def test_a_failing_function_is_named_and_the_operator_asks_for_its_snapshot():
    def picky(x: int, y: int) -> bool:
        if x + y > 2:
            raise ValueError("too much")
        return True

    q = query(on="a.k = b.k and picky(a.k, b.k)", functions={"picky": picky})
    op = wr.Operator(q)
    assert op.process({"a": rows(0), "b": rows(0)}).num_rows == 1
    blob = op.snapshot()
    bad = pa.table({"ts": pa.array([1_000_000], pa.timestamp("us")), "k": [2]})
    with pytest.raises(wr.DataError, match=r"picky.*too much"):
        op.process({"a": bad, "b": bad})
    with pytest.raises(wr.StateError, match=r"Operator\.restore"):
        op.process({"a": rows(2)})
    with pytest.raises(wr.StateError):
        op.snapshot()
    assert wr.Operator.restore(q, blob).process({"a": rows(2)}).num_rows == 1


def test_refused_data_leaves_the_operator_as_it_was():
    op = wr.Operator(query())
    op.process({"a": rows(0), "b": rows(0)})
    with pytest.raises(wr.DataError, match="stream 'b'"):
        op.process({"a": rows(1), "b": pa.table({"ts": [1]})})
    assert op.metrics().rows_in == 2
    assert op.process({"a": rows(1)}).num_rows == 1


def test_after_finish_nothing_earlier_is_taken():
    q = wr.Query({a: wr.Stream("ts", "1 rows") for a in "ab"}, on="a.k = b.k", late="10 s")
    op = wr.Operator(q)
    assert op.process({"a": rows(1, 5), "b": rows(4)}).num_rows == 0
    assert op.finish().num_rows == 2
    op = wr.Operator.restore(q, op.snapshot())
    op.process({"b": rows(3)})
    assert op.metrics().rows_late == 1


def test_the_user_is_told_once_when_kernels_compile(tmp_path, monkeypatch, caplog):
    from windrow.engine import compile_notice

    monkeypatch.setattr(compile_notice, "_told", False)
    monkeypatch.setattr(compile_notice, "is_compiled", lambda: False)
    wr.Operator(query())
    wr.Operator(query())
    assert caplog.text.count("compiling kernels") == 1
