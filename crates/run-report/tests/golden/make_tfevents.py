"""Writes tfevents.bin: an event file as the package tensorboard (2.21) writes it, in the order in which this crate writes its fields.

    pip install tensorboard && python make_tfevents.py
"""

from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def scalars(step, **values):
    value = [Summary.Value(tag=tag.replace("__", "/"), simple_value=number) for tag, number in sorted(values.items())]
    return Event(wall_time=1700000000.25 + step, step=step, summary=Summary(value=value))


events = [
    Event(wall_time=1700000000.25, file_version="brain.Event:2"),
    scalars(1, critic__score__mean=0.1, actor__lr=1.5e-4),
    scalars(300, critic__score__mean=-2.5, timing_s__step=12.0),
    Event(wall_time=1700000300.25, step=300, session_log=SessionLog(status=SessionLog.START)),
]
with open(Path(__file__).with_name("tfevents.bin"), "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString(deterministic=True))
