"""Credentials do not belong in what people read: errors, logs, pages, metrics and the output of commands.

Texts are redacted, not only URLs: libraries quote in their errors the URL they were given, or a part of it.
When in doubt it is hidden: a URL that is shown too short harms nobody. Each pattern takes a word as a whole
or not at all, so that a long text is looked through once.
"""

from __future__ import annotations

import re

HIDDEN = "***"
_URL = re.compile(r"([A-Za-z][\w+.-]{0,30}://|jdbc:oracle:\w{1,20}:)([^\s\"'<>]+)", re.IGNORECASE)
_AUTHORITY = re.compile(r"[^/?#]*")
_CONTAINERS = ("abfs://", "abfss://", "wasb://", "wasbs://")
"""Schemes with the name of a container before the host."""
_NAME = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|signature|credential|sasl\.jaas\.config|"
    r"(?:access|account|api|private|shared|storage)[_.-]?key"
)
"""Settings that hold a secret have one of these in their name."""
_SETTING = re.compile(
    rf"(?<![\w.-])((?=[\w.-]*?(?:{_NAME}))[\w.-]++\\?[\"'`]?\s*+(?:[=:]|->)\s*+)"
    r"(?:\\?\"[^\"]*\"|'[^']*'|(?:(?<==)|(?<=> ))[^\s\"'&;,]*[^\s\"'&;,.:)])",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """The text with all credentials hidden: in URLs, and as settings with a telling name.

    >>> redacted("cannot open s3://KEY:SECRET@bucket/state?region=eu&token=abc: refused")
    'cannot open s3://***@bucket/state?***: refused'
    >>> redacted("sqlserver://host;user=me;password=abc, or password = 'abc'")
    'sqlserver://host;user=me;password=***, or password = ***'
    """
    return _SETTING.sub(rf"\1{HIDDEN}", _URL.sub(_without_secrets, text))


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return re.search(_NAME, name, re.IGNORECASE) is not None


def cause(error: BaseException) -> BaseException | None:
    """For `raise ... from cause(error)`: a traceback prints causes too, so none whose text tells a secret."""
    chain: BaseException | None = error
    while chain is not None:
        if redacted(str(chain)) != str(chain):
            return None
        chain = chain.__cause__ or chain.__context__
    return error


def _without_secrets(url: re.Match[str]) -> str:
    scheme, rest = url[1], url[2]
    found = _AUTHORITY.match(rest)
    authority = found[0] if found else ""
    if ":" in authority or not scheme.endswith("//"):
        # There may be a password, which may hold anything, even slashes that nobody escaped.
        at = rest.rfind("@")
    else:
        # What stands before the host may be a token.
        at = -1 if scheme.lower() in _CONTAINERS else authority.rfind("@")
    if at > 0:
        rest = HIDDEN + rest[at:]
    path, mark, query = rest.partition("?")
    if "=" in query:
        # Signatures have many names, so none is shown; what ends the sentence is.
        rest = path + mark + HIDDEN + query[len(query.rstrip(".,;:)")) :]
    return scheme + rest
