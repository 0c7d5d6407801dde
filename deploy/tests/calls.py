"""gRPC calls by reflection alone, as grpcurl makes them: no generated code, JSON in and out."""
import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


class Reflected:
    """A client of one server."""

    def __init__(self, address, credentials=None):
        options = [("grpc.max_receive_message_length", 64 << 20)]
        self.channel = grpc.secure_channel(address, credentials, options) if credentials else grpc.insecure_channel(address, options)
        self.database = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.database)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def services(self):
        return sorted(self.database.get_services())

    def describe(self, name):
        """The names of a message's fields; KeyError if nothing has that name."""
        return ", ".join(field.name for field in self.pool.FindMessageTypeByName(name).fields)

    def start(self, method, request, timeout=60, camel_case=False):
        """Begins a call, given as PACKAGE.SERVICE/METHOD with one message as JSON. Returns the answers as they come."""
        service, name = method.split("/")
        described = self.pool.FindServiceByName(service).methods_by_name[name]
        one, answer = (message_factory.GetMessageClass(kind) for kind in (described.input_type, described.output_type))
        message = json_format.ParseDict(request, one())
        path, codec = f"/{method}", dict(request_serializer=one.SerializeToString, response_deserializer=answer.FromString)
        match (described.client_streaming, described.server_streaming):
            case (False, False):
                answers = iter([self.channel.unary_unary(path, **codec)(message, timeout=timeout)])
            case (False, True):
                answers = self.channel.unary_stream(path, **codec)(message, timeout=timeout)
            case (True, True):
                answers = self.channel.stream_stream(path, **codec)(iter([message]), timeout=timeout)
            case _:
                raise NotImplementedError(method)
        return (json_format.MessageToDict(found, preserving_proto_field_name=not camel_case) for found in answers)

    def call(self, method, request, timeout=60):
        return list(self.start(method, request, timeout))
