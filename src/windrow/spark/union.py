"""The union of all streams, which Spark shuffles and sends to the join's tasks.

Its columns are *slots*. Columns of different streams share a slot if they have the same type, so that a row
carries few nulls besides its own values. Rows of files take one slot: they arrive in blobs, many in each.
After the slots come a row's `CONTENT` and `COPY`, if there are any, and its `ROUTE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from windrow.model.query import Query
from windrow.model.source import quoted
from windrow.spark.files.file_stream import FileStream
from windrow.spark.frames import Frame

ROUTE = "route"
"""The column of a row's partition and stream, as partition * 32 + stream. One column instead of two, because
every column of a row costs time on its way to Python."""
STREAM_BITS = 5
AHEAD = 16
"""Added to the stream number of a row that is too far ahead: it is counted and dropped."""
BEAT = (1 << STREAM_BITS) - 1
"""The stream number of a row that carries nothing but the task's partition."""
COPY = "copy"
"""The number of a row's copy, from 0. Present only if rows are copied."""
CONTENT = "content"
"""A hash of the row, which orders rows of equal time. Present only with row windows."""
BLOB = st.StructField("rows", st.BinaryType())


@dataclass(frozen=True)
class UnionColumns:
    """What each column of the union holds."""

    types: tuple[st.DataType, ...] = ()
    """Of the slots."""
    slots: tuple[tuple[int, ...], ...] = ()
    """Per stream, the slot of each column."""
    text: int | None = None
    """The slot of control messages, if there are any."""
    clock: str | None = None
    """The column in which beats carry the micro-batch's clock, if rows too far ahead are kept."""
    blob_times: Mapping[int, str] = field(default_factory=dict)
    """The streams whose rows arrive in blobs, with the columns of their times."""
    ordered: bool = False
    """Whether rows carry their content."""
    copied: bool = False
    """Whether rows carry the number of their copy."""

    @classmethod
    def of(
        cls, query: Query, frames: Sequence[Frame], copied: bool, control: bool, keeps_ahead: bool
    ) -> UnionColumns:
        """The union of these frames.

        Parameters
        ----------
        copied
            Whether the layout copies rows.
        control
            Whether there are control messages.
        keeps_ahead
            Whether rows that are too far ahead are kept.
        """
        times = [query.streams[frame.alias].time for frame in frames]
        blobs = {s: times[s] for s, frame in enumerate(frames) if isinstance(frame.data, FileStream)}
        types: list[st.DataType] = []
        slots = []
        for stream, frame in enumerate(frames):
            free = list(range(len(types)))
            own = []
            for each in (BLOB,) if stream in blobs else frame.fields:
                slot = next((s for s in free if types[s] == each.dataType), None)
                if slot is None:
                    slot = len(types)
                    types.append(each.dataType)
                else:
                    free.remove(slot)
                own.append(slot)
            slots.append(tuple(own))
        clock = text = None
        if keeps_ahead and query.head_start is not None:
            # In a slot of times; in one of blobs, as text, if there is no other.
            timed = {s: frame for s, frame in enumerate(frames) if s not in blobs}
            at = [slots[s][[f.name for f in frame.fields].index(times[s])] for s, frame in timed.items()]
            clock = f"slot{at[0] if at else slots[0][0]}"
        if control:
            if st.StringType() not in types:
                types.append(st.StringType())
            text = types.index(st.StringType())
        return cls(tuple(types), tuple(slots), text, clock, blobs, query.counts_rows, copied)

    @property
    def schema(self) -> st.StructType:
        """All columns."""
        fields = [st.StructField(f"slot{slot}", kind) for slot, kind in enumerate(self.types)]
        fields += [st.StructField(CONTENT, st.LongType(), False)] * self.ordered
        fields += [st.StructField(COPY, st.IntegerType(), False)] * self.copied
        return st.StructType([*fields, st.StructField(ROUTE, st.IntegerType(), False)])

    def of_stream(self, stream: int, frame: Frame) -> list[sf.Column]:
        """The columns of a stream in their slots, and nulls in the other slots."""
        names = (quoted(f.name) for f in frame.fields)
        return self._filled(dict(zip(self.slots[stream], map(sf.col, names), strict=True)))

    def of_text(self, column: str) -> list[sf.Column]:
        """A column of control messages in its slot, and nulls in the other slots."""
        assert self.text is not None
        return self._filled({self.text: sf.col(column)})

    def _filled(self, held: Mapping[int, sf.Column]) -> list[sf.Column]:
        return [
            held.get(slot, sf.lit(None).cast(kind)).alias(f"slot{slot}")
            for slot, kind in enumerate(self.types)
        ]


def route(partition: sf.Column, stream: sf.Column) -> sf.Column:
    """The value of `ROUTE`."""
    return sf.shiftleft(partition, STREAM_BITS) + stream
