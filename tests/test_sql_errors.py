"""What is wrong with a text is told with its line and column, and carets under the place."""

from __future__ import annotations

import pytest

import windrow as wr
from spark_tools import failing
from windrow.sql_frontend.parser import parse_script
from windrow.sql_frontend.scope import StreamInfo

# The text, the words the carets stand under, and a part of what is said.
WRONG = [
    ("SELECT a.x FROM a [foo]", "foo", "expected a window: RANGE 1 MINUTE"),
    ("SELECT a.x FROM a [RANGE]", "]", "expected a time such as 1 MINUTE"),
    ("SELECT a.x FROM a [RANGE 1 MINUTE, b", ",", "expected ] after the window"),
    ("SELECT a.x FROM a [ROWS many], b", "many", "expected a number of rows"),
    ("SELECT a.x FROM a [PARTITION BY k RANGE 1 s]", "RANGE", "counted in rows"),
    ("SELECT a.x FROM a [ROWS 0], b WINDOW 1 s", "0", "window must be positive"),
    ("SELECT a.x FROM a, b WINDOW 1 fortnight", "1 fortnight", "unknown unit 'fortnight'"),
    ("SELECT a.x FROM a, b", "a", "has no window"),
    ("SELECT a.x FROM a WINDOW 1 s", "SELECT a.x FROM a WINDOW 1 s", "a join takes 2 to 8 streams"),
    ("SELECT a.x FROM a, a WINDOW 1 s", "a", "two streams are called 'a'"),
    ("SELECT a.x FROM (SELECT 1), b WINDOW 1 s", "(", "a subquery is not supported in FROM"),
    ("SELECT a.x FROM f(3), b WINDOW 1 s", "f", "a call is not supported in FROM"),
    ("SELECT a.x FROM a NATURAL JOIN b ON a.k = b.k WINDOW 1 s", "b ON a.k = b.k", "NATURAL JOIN is not"),
    ("SELECT a.x FROM a JOIN b USING (k) WINDOW 1 s", "b USING (k", "USING is not supported"),
    ("SELECT a.x frm a, b", "a, b", "'a' is not expected here"),
    ("SELECT", "SELECT", "nothing is selected"),
    ("SELECT a.x", "SELECT a.x", "FROM is missing"),
    ("INSERT INTO a SELECT 1", "INSERT", "expected SELECT, EXPLAIN SELECT or CREATE STREAM"),
    ("EXPLAIN CREATE STREAM a", "CREATE", "expected SELECT"),
    ("WITH q AS (SELECT 1) SELECT 1", "WITH", "WITH ... AS is not supported"),
    ("SELECT a.x FROM a, b WINDOW 1 s UNION SELECT 1", "SELECT a.x", "UNION, INTERSECT and EXCEPT"),
    ("SELECT DISTINCT a.x FROM a, b WINDOW 1 s", "SELECT DISTINCT", "DISTINCT is not supported"),
    ("SELECT a.x FROM a, b WINDOW 1 s LIMIT 3", "3", "LIMIT is not supported"),
    ("SELECT a.x FROM a, b WINDOW 1 s ORDER BY a.x", "a.x", "ORDER BY is not supported"),
    ("SELECT a.x FROM a, b WHERE (a.k = b.k", "k", "expected )"),
    ("SELECT a.x FROM a, b WHERE a.k = 'b WINDOW 1 s", "'b", "' is opened here and never closed"),
    ("SELECT a.x FROM a, b WHERE a.k = c.k WINDOW 1 s", "c", "unknown stream 'c'"),
    ("SELECT a.x FROM a, b WHERE k = 3 WINDOW 1 s", "k", "names no stream"),
    ("SELECT a.x FROM a, b WHERE a.k = ? WINDOW 1 s", "a.k", "write a parameter as a plain name"),
    ("SELECT a.x FROM a, b WHERE sum(a.k) = 3 WINDOW 1 s", "sum", "needs GROUP BY"),
    ("SELECT a.x FROM a, b WHERE a.k IN (SELECT 1) WINDOW 1 s", "1", "a subquery is not supported"),
    ("SELECT a.x AS y, b.x AS Y FROM a, b WINDOW 1 s", "b.x AS Y", "two columns are called"),
    ("SELECT count(*) FROM a, b WINDOW 1 s", "count", "needs GROUP BY TUMBLE"),
    ("SELECT sum(a.x) OVER () FROM a, b WINDOW 1 s", "sum(a.x", "OVER (...) is not supported"),
    ("SELECT a.x FROM a, b GROUP BY a.x WINDOW 1 s", "a.x", "needs one window of time"),
    ("SELECT a.y FROM a, b GROUP BY tumble(a.t, '1 s'), a.x WINDOW 1 s", "a.y", "neither in GROUP BY nor"),
    ("SELECT median(a.x) FROM a, b GROUP BY tumble(a.t, '1 s') WINDOW 1 s", "median", "there are count, sum"),
    ("SELECT count(DISTINCT a.x) FROM a, b GROUP BY tumble(a.t, '1 s') WINDOW 1 s", "count", "DISTINCT"),
    ("SELECT tumble(a.t, '1 s') FROM a, b GROUP BY tumble(a.t, '1 s') WINDOW 1 s", "tumble", "window_start"),
    ("SELECT count(*) FROM a, b GROUP BY tumble(a.t, 3) WINDOW 1 s", "3", "expected a length"),
    ("SELECT count(*) FROM a, b GROUP BY hop(a.t, '2 s', '1 s') WINDOW 1 s", "hop", "slide: must not exceed"),
    ("SELECT count(*) FROM a, b GROUP BY tumble(a.t, '0 s') WINDOW 1 s", "'0 s'", "window: must be positive"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (aggregate_watermark_delay = '-1 s')", "'-1 s'",
     "aggregate_watermark_delay: must not be neg"),
    ("SELECT * FROM a, b GROUP BY tumble(a.t, '1 s') WINDOW 1 s", "*", "cannot be selected from groups"),
    ("SELECT a.x FROM a, b HAVING a.x > 1 WINDOW 1 s", "a.x > 1", "HAVING needs GROUP BY"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (memry = '1')", "memry", "Did you mean 'memory'?"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (schedule = swf)", "schedule = swf", "schedule: needs a deadline"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (deadline = '1 s', schedule = swift)", "swift", "mean 'swf'?"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (max_backlog = 1.5)", "1.5", "must be a whole number of rows"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (heartbeat = 1)", "1", "expected true or false"),
    ("SELECT a.x FROM a LEFT JOIN b ON a.k = b.k WINDOW 1 s WITH (deadline = '1 s', schedule = swf)",
     "deadline = '1 s'", "only inner joins defer rows"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (memory = 'lots')", "'lots'", "expected '256 MiB'"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (memory = 1, memory = 2)", "memory", "is given twice"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (shed = 'aeg')", "'aeg'", "Did you mean 'age'?"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (shed = importnce(by = 1))", "importnce", "'importance'?"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (shed = age(age_bins = 0))", "age", "shed age: age_bins: must be"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (shed = age(3))", "age", ": shed age: a policy takes settings by"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (shed = importance(bye = 'b.x'))", "importance", "'by'?"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (late = 7)", "7", "expected a duration"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (allow_cross_join = 'yes')", "'yes'", "expected true or false"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH (aggregate_watermark_delay = '1 s')", "aggregate_watermark_delay",
     "aggregate_watermark_delay: needs GROUP BY"),
    ("SELECT a.x FROM a, b WINDOW 1 s WITH memory = 3", "memory", "expected ( and settings"),
    ("SELECT a.x FROM a [PARTITION BY z ROWS 3], b [ROWS 3] WHERE a.k = b.k", "z", "which is k"),
    ("CREATE STREAM x (a", "a", "expected , or ) after a column"),
    ("CREATE STREAM x FROM (path = 'p')", "x", "format is missing"),
    ("CREATE STREAM x (at TIMESTAMP) TIME ta FROM (format = 'json')", "ta", "Did you mean 'at'?"),
    ("CREATE STREAM x TIME at", "at", "expected FROM (format = "),
    ("CREATE STREAM x FROM (format = a); CREATE STREAM X FROM (format = a)", "X", "is created twice"),
    ("SELECT count(*) FROM a, b GROUP BY tumble(a.t, '1 s') HAVING count(*) > 1 WINDOW 1 s "
     "WITH (memory = '9 rows', shed = cluster)", "count", "HAVING is not supported on a sample"),
    ("SELECT count(*) * 2 FROM a, b GROUP BY tumble(a.t, '1 s') WINDOW 1 s "
     "WITH (memory = '9 rows', shed = cluster)", "count(*) * 2", "an aggregate of a sample on its own"),
]  # fmt: skip


def place(message: str) -> tuple[int, int, str]:
    """(line, column, the text from the carets on) of a message."""
    head, line, carets = message.splitlines()[-3:]
    width = carets.count("^")
    assert carets.strip() == "^" * width
    column = carets.index("^")
    told = [int(word.rstrip(":,")) for word in head.split(": ")[0].replace("column", "").split()[2:] if word]
    assert told[-1] == column - 4 + 1
    return told[0], told[-1], line[column:]


@pytest.mark.parametrize(("text", "words", "told"), WRONG)
def test_the_carets_stand_under_the_place(text, words, told):
    message = failing(lambda: parse_script(text).bind(time="at"))
    assert told in message, message
    line, _, found = place(message)
    assert line == 1 and found.startswith(words), message


@pytest.mark.parametrize(("text", "words", "told"), WRONG)
def test_in_a_longer_text_the_line_is_told(text, words, told):
    """A statement in front, a tab, letters outside ASCII: the place stays the place."""
    before = "SELECT a.x FROM a, b WHERE a.k = 'ü→' WINDOW 1 s;\n\n\t"
    message = failing(lambda: parse_script(before + text).bind(time="at"))
    line, column, found = place(message)
    assert line == 3 and column > 1 and found.startswith(words), message


def test_several_lines():
    message = failing(
        lambda: parse_script("SELECT a.x\nFROM a, b\nWHERE a.k = c.k\nWINDOW 1 s").bind(time="at")
    )
    assert message == (
        "sql, line 3, column 13: unknown stream 'c'. Available: a, b\n    WHERE a.k = c.k\n                ^"
    )


def test_unknown_names_get_the_nearest():
    known = {"bids": StreamInfo(("price", "at"), "at"), "asks": StreamInfo(("price", "at"), "at")}
    text = "SELECT b.prize FROM {} b, asks a WHERE a.price = b.price WINDOW 1 s"
    assert "Did you mean 'price'? Available: at, price" in failing(
        lambda: parse_script(text.format("bids")).bind(known=known)
    )
    assert "Did you mean 'bids'?" in failing(lambda: parse_script(text.format("bid")).bind(known=known))
    alone = "SELECT prise FROM bids b, asks a WHERE a.price = b.price WINDOW 1 s"
    assert "Did you mean 'price'" in failing(lambda: parse_script(alone).bind(known=known))


@pytest.mark.parametrize("text", ["", "  ", ";", "-- nothing\n"])
def test_nothing_at_all(text):
    assert "there is no statement" in failing(lambda: parse_script(text))


def test_no_text():
    with pytest.raises(wr.QueryError, match="expected a text, got int"):
        parse_script(3)


def test_a_time_is_needed():
    message = failing(lambda: parse_script("SELECT a.x FROM s a, t b WHERE a.k = b.k WINDOW 1 s").bind())
    assert "its time column is not known" in message and place(message)[2].startswith("s a")


@pytest.mark.parametrize("cut", range(0, 150, 1))
def test_a_text_cut_anywhere_is_refused_or_read(cut):
    """Nothing but a QueryError comes out of a broken text."""
    text = (
        "SELECT a.x, count(*) AS n FROM s a [RANGE 1 MINUTE], t b [ROWS 10] WHERE a.k = b.k AND (a.v > 'x') "
        "GROUP BY tumble(a.at, INTERVAL 1 MINUTE), a.x WITH (memory = '1 MB', shed = (age, drop))"
    )
    for broken in (text[:cut], text[cut:], text[:cut] + text[cut + 3 :], text[:cut] + ")" + text[cut:]):
        try:
            parse_script(broken).bind(time="at")
        except wr.QueryError as error:
            assert str(error).startswith("sql")
