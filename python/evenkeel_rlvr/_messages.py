"""The messages of the reward service, from the descriptors of the project's .proto files: no generated code, and so any release of protobuf."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from .errors import MissingPackage


@cache
def _pool() -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError as error:
        raise MissingPackage(f"evenkeel_rlvr.client needs grpcio and protobuf: pip install evenkeel-rlvr[grpc] ({error})") from None
    described = descriptor_pb2.FileDescriptorSet.FromString(files(__package__).joinpath("evenkeel.v1.binpb").read_bytes())
    # Of its own, so that another package may have messages of the same names.
    pool = descriptor_pool.DescriptorPool()
    for file in described.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@cache
def message(name: str) -> Any:
    """The class of a message of `evenkeel.v1`."""
    described = _pool().FindMessageTypeByName(f"evenkeel.v1.{name}")
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(described)


@cache
def names_of(enum: str) -> dict[int, str]:
    """The values of an enum, in lower case and without its name before them."""
    described = _pool().FindEnumTypeByName(f"evenkeel.v1.{enum}")
    prefix = "".join(f"_{sign}" if sign.isupper() else sign for sign in enum).lstrip("_").upper() + "_"
    return {value.number: value.name.removeprefix(prefix).lower() for value in described.values}
