"""Removes credentials from errors, logs, pages, metrics and the output of commands.

All text is redacted, not only URLs, because errors of libraries quote the URL or a part of it. In doubt, text
is hidden: a truncated URL does no harm. Each pattern matches a word as a whole or not at all, so that a long
text is scanned once.
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
    """For `raise ... from cause(error)`: the error, or None if the traceback would show a secret."""
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
        # There may be a password, which may contain anything, even slashes that are not escaped.
        at = rest.rfind("@")
    else:
        # The part before the host may be a token.
        at = -1 if scheme.lower() in _CONTAINERS else authority.rfind("@")
    if at > 0:
        rest = HIDDEN + rest[at:]
    path, mark, query = rest.partition("?")
    if "=" in query:
        # Signatures have many names, so no value is shown. Punctuation after the URL is kept.
        rest = path + mark + HIDDEN + query[len(query.rstrip(".,;:)")) :]
    return scheme + rest
