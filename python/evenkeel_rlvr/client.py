"""A client of reward services (`evenkeel serve reward`, or its gateway): mathematics and programs, judged by other processes or machines.

>>> with RewardClient("127.0.0.1:50052") as client:
...     client.verify([MathItem(r"\\boxed{4}", "4")])[0].reward
1.0

Needs `pip install evenkeel-rlvr[grpc]`. gRPC is imported, and its threads start, with the first call.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._messages import message
from .errors import ArgumentValueError, ClientClosed, MissingPackage, ServiceError
from .items import CodeItem, CodeReport, MathItem, ServiceVerdict, request

__all__ = ["CodeItem", "CodeReport", "MathItem", "RewardClient", "ServiceVerdict", "Tls"]

#: Items that a service has at a time; more wait here, where they cost nothing.
_IN_FLIGHT = 256
#: What a service accepts by default; a larger message would end the call and lose every item in it.
_MAX_MESSAGE = 32 << 20
#: Failures after which another try, at another address if there is one, can help.
_TRY_AGAIN = {"worker_lost", "overloaded", "draining"}
_ATTEMPTS = 4
_STATUS_SECONDS = 10


@dataclass(frozen=True)
class Tls:
    """Files in PEM format: the authorities that are trusted, and the client's own certificate and key where the service wants one."""

    authorities: str | os.PathLike[str]
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None


class RewardClient:
    """Judges items at one or more addresses (`host:port`).

    `token` is sent with every call; without `tls` only to this machine, or with `insecure=True`. `timeout` is the seconds that an item may take
    at a service, queueing included; it is then invalid (`deadline`), not wrong. May be used by several threads; a process that was forked
    opens connections of its own.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        token: str | None = None,
        tls: Tls | None = None,
        insecure: bool = False,
        timeout: float = 300.0,
    ) -> None:
        self._addresses = [addresses] if isinstance(addresses, str) else list(addresses)
        if not self._addresses:
            raise ArgumentValueError("addresses is empty, allowed: at least one HOST:PORT")
        for address in self._addresses:
            host, separator, port = address.rpartition(":")
            if not separator or not host or not port.isdigit():
                raise ArgumentValueError(f"addresses has {address!r}, allowed: HOST:PORT")
            if token and tls is None and not insecure and host not in ("127.0.0.1", "localhost", "[::1]"):
                raise ArgumentValueError(f"token would be sent in clear to {address}, allowed: with tls, or with insecure=True")
        if not 0 < timeout < float("inf"):
            raise ArgumentValueError(f"timeout is {timeout}, allowed: a number of seconds above 0")
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self._tls, self._timeout = tls, timeout
        self._lock = threading.Lock()
        self._channels: dict[str, Any] = {}
        self._process = os.getpid()
        self._closed = False
        _alive.add(self)

    def verify(self, items: Iterable[MathItem | CodeItem]) -> list[ServiceVerdict]:
        """Verdicts in the order of the items.

        A service that is lost or overloaded is tried again, at the other addresses first; what has no verdict then is invalid (`worker_lost`,
        `overloaded`). A service that refuses the call itself (credentials, another protocol) raises `ServiceError`.
        """
        wanted = list(items)
        messages = [request(item, str(index), self._timeout) for index, item in enumerate(wanted)]
        verdicts: dict[int, ServiceVerdict] = {}
        for index, item in enumerate(messages):
            if isinstance(item, ServiceVerdict):
                verdicts[index] = item
            elif item.ByteSize() > _MAX_MESSAGE - 1024:
                verdicts[index] = ServiceVerdict.invalid("too_large", f"the item has {item.ByteSize()} bytes, allowed: {_MAX_MESSAGE - 1024}")
        for attempt in range(_ATTEMPTS):
            left = [index for index in range(len(messages)) if index not in verdicts or verdicts[index].invalid_reason in _TRY_AGAIN]
            if not left:
                break
            if attempt:
                time.sleep(0.1 * 4**attempt)
            self._round(attempt, messages, left, verdicts)
        return [verdicts[index] for index in range(len(messages))]

    async def averify(self, items: Iterable[MathItem | CodeItem]) -> list[ServiceVerdict]:
        """The same, awaited: in a thread of the loop's default pool."""
        return await asyncio.to_thread(self.verify, list(items))

    def status(self) -> dict[str, Any]:
        """For each address the service's `GetStatus` as a dictionary, or the `ServiceError` that it met."""
        found: dict[str, Any] = {}
        grpc = _grpc()
        from google.protobuf import json_format

        for address in self._addresses:
            try:
                call = self._channel(address).unary_unary(
                    "/evenkeel.v1.Reward/GetStatus",
                    request_serializer=lambda message: message.SerializeToString(),
                    response_deserializer=message("RewardGetStatusResponse").FromString,
                )
                answer = call(message("RewardGetStatusRequest")(), timeout=_STATUS_SECONDS, metadata=self._metadata)
                found[address] = json_format.MessageToDict(answer, preserving_proto_field_name=True)
            except grpc.RpcError as error:
                found[address] = _service_error(address, error)
        return found

    def close(self) -> None:
        """Closes the connections. Calls of other threads end with lost items."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
        if self._process == os.getpid():
            for channel in channels.values():
                channel.close()

    def __enter__(self) -> RewardClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _round(self, attempt: int, messages: list[Any], left: list[int], verdicts: dict[int, ServiceVerdict]) -> None:
        """Sends every item that is left to one address, another one than before where there are several."""
        count = len(self._addresses)
        parts: list[list[int]] = [[] for _ in range(count)]
        for index in left:
            parts[(index + attempt) % count].append(index)
        parts_with_items = [(address, part) for address, part in zip(self._addresses, parts) if part]
        if len(parts_with_items) == 1:
            ((address, part),) = parts_with_items
            verdicts.update(self._call(address, messages, part))
            return
        with ThreadPoolExecutor(len(parts_with_items), thread_name_prefix="evenkeel-client") as threads:
            calls = [threads.submit(self._call, address, messages, part) for address, part in parts_with_items]
            for call in calls:
                verdicts.update(call.result())

    def _call(self, address: str, messages: list[Any], part: list[int]) -> dict[int, ServiceVerdict]:
        """The verdicts of one call; those that it had not when it broke are lost."""
        grpc = _grpc()
        verdicts: dict[int, ServiceVerdict] = {}
        room, ended = threading.Semaphore(_IN_FLIGHT), threading.Event()

        def requests() -> Iterator[Any]:
            for index in part:
                while not room.acquire(timeout=0.5):
                    if ended.is_set():
                        return
                if ended.is_set():
                    return
                yield message("VerifyRequest")(item=messages[index])

        stream = self._channel(address).stream_stream(
            "/evenkeel.v1.Reward/Verify",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message("Verdict").FromString,
        )
        # Items wait for each other; each has its own deadline at the service.
        patience = self._timeout * (1 + len(part) // _IN_FLIGHT) + 30
        lost = "the call ended before its verdict"
        expected = {str(index): index for index in part}
        try:
            for verdict in stream(requests(), timeout=patience, metadata=self._metadata):
                index = expected.get(verdict.id)
                if index is None or index in verdicts:
                    raise ServiceError(f"{address} answered the item {verdict.id!r}, which it was not asked or has answered")
                verdicts[index] = ServiceVerdict.read(verdict)
                room.release()
        except grpc.RpcError as error:
            if error.code() in (
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.PERMISSION_DENIED,
                grpc.StatusCode.UNIMPLEMENTED,
                grpc.StatusCode.INVALID_ARGUMENT,
            ):
                raise _service_error(address, error) from None
            lost = str(_service_error(address, error))
        finally:
            ended.set()
        for index in part:
            verdicts.setdefault(index, ServiceVerdict.invalid("worker_lost", lost))
        return verdicts

    def _channel(self, address: str) -> Any:
        grpc = _grpc()
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed")
            if self._process != os.getpid():
                # Those of the parent, which a child can neither use nor close.
                self._channels, self._process = {}, os.getpid()
            if address not in self._channels:
                options = [("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.max_send_message_length", _MAX_MESSAGE)]
                if self._tls is None:
                    self._channels[address] = grpc.insecure_channel(address, options=options)
                else:
                    self._channels[address] = grpc.secure_channel(address, self._credentials(self._tls), options=options)
            return self._channels[address]

    @staticmethod
    def _credentials(tls: Tls) -> Any:
        return _grpc().ssl_channel_credentials(
            root_certificates=_bytes(tls.authorities), private_key=_bytes(tls.key), certificate_chain=_bytes(tls.certificate)
        )


_alive: weakref.WeakSet[RewardClient] = weakref.WeakSet()


def _unlock() -> None:
    """In a child: another thread of the parent may have held a lock, and is not there to release it."""
    for client in list(_alive):
        client._lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def _bytes(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _service_error(address: str, error: Any) -> ServiceError:
    return ServiceError(f"{address}: {error.code().name.lower()}: {str(error.details())[:500]}")


def _grpc() -> Any:
    try:
        import grpc
    except ImportError as error:
        raise MissingPackage(f"evenkeel_rlvr.client needs grpcio and protobuf: pip install evenkeel-rlvr[grpc] ({error})") from None
    return grpc
