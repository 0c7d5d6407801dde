//! Sizes of decoded messages, from their descriptors.
//!
//! An empty list element is two bytes on the wire and a struct in memory that is thirty times as large or more.
//! Therefore the decoded size is estimated before decoding (`decoded_size`).

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// A `Vec`, a `String` or a map without what it holds.
const CONTAINER_BYTES: u64 = 24;
/// Capacity of a list relative to its length: lists grow by doubling.
const LIST_SLACK: u64 = 2;
/// Methods of built-in services, which have no descriptors here.
const OTHER_METHODS: [&str; 5] = [
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/List",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Index of a message.
pub(super) type MessageIndex = usize;

/// What one occurrence of a field adds to the decoded size, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// A message: an element of a list, or part of the enclosing message.
    Message {
        /// The type of the message.
        of: MessageIndex,
        /// Bytes of a new element.
        element: u64,
    },
    /// A text or bytes, plus their length.
    Text {
        /// Bytes of a new element.
        element: u64,
    },
    /// Numbers of this many bytes, one by one or packed.
    Numbers {
        /// Bytes of one, where it is an element of a list.
        element: u64,
        /// Bytes of one where it is written, at least.
        written: u64,
    },
}

#[derive(Debug, Default)]
struct MessageShape {
    fields: HashMap<u32, Field>,
}

/// The messages and methods of `evenkeel.v1`.
#[derive(Debug, Default)]
pub(super) struct Schema {
    shapes: Vec<MessageShape>,
    methods: HashMap<String, MessageIndex>,
}

impl Schema {
    /// The schema of `evenkeel.v1`.
    pub(super) fn known() -> &'static Self {
        static KNOWN: LazyLock<Schema> = LazyLock::new(|| {
            let files = FileDescriptorSet::decode(evenkeel_proto::FILE_DESCRIPTOR_SET);
            Schema::of(&files.expect("the descriptors were written by our own build"))
        });
        &KNOWN
    }

    /// The request message of a method, given as the path of its calls without the leading slash.
    pub(super) fn request(&self, method: &str) -> Option<MessageIndex> {
        self.methods.get(method).copied()
    }

    /// Whether any server has the method.
    pub(super) fn has_method(&self, method: &str) -> bool {
        self.methods.contains_key(method) || OTHER_METHODS.contains(&method)
    }

    /// A field of a message. `None` if it is unknown and skipped.
    pub(super) fn field(&self, of: MessageIndex, number: u32) -> Option<Field> {
        self.shapes.get(of)?.fields.get(&number).copied()
    }

    fn of(files: &FileDescriptorSet) -> Self {
        let mut messages = Vec::new();
        for file in &files.file {
            file.message_type.iter().for_each(|message| collect(file.package(), message, &mut messages));
        }
        let index: HashMap<&str, MessageIndex> =
            messages.iter().enumerate().map(|(index, (name, _))| (&**name, index)).collect();
        let named = |name: &str| index.get(name.trim_start_matches('.')).copied();
        let sizes: Vec<u64> =
            (0..messages.len()).map(|message| size(message, &messages, &named, &mut Vec::new())).collect();
        let shapes = messages.iter().map(|(_, message)| {
            let fields = message.field.iter().filter_map(|field| {
                let list = if field.label() == Label::Repeated { LIST_SLACK } else { 0 };
                let kind = match field.r#type() {
                    Type::Message => {
                        let of = named(field.type_name())?;
                        Field::Message { of, element: list * sizes[of] }
                    }
                    Type::String | Type::Bytes => Field::Text { element: list * CONTAINER_BYTES },
                    number => Field::Numbers { element: list * number_bytes(number), written: written(number) },
                };
                Some((field.number().cast_unsigned(), kind))
            });
            MessageShape { fields: fields.collect() }
        });
        let shapes = shapes.collect();
        let mut methods = HashMap::new();
        for file in &files.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("{}.{}/{}", file.package(), service.name(), method.name());
                    methods.extend(named(method.input_type()).map(|input| (path, input)));
                }
            }
        }
        Self { shapes, methods }
    }
}

/// A message and its nested messages with their full names.
fn collect<'d>(enclosing: &str, message: &'d DescriptorProto, into: &mut Vec<(String, &'d DescriptorProto)>) {
    let name = format!("{enclosing}.{}", message.name());
    message.nested_type.iter().for_each(|nested| collect(&name, nested, into));
    into.push((name, message));
}

/// Approximate size of an empty message in bytes: members of a `oneof` share their memory.
fn size(
    message: MessageIndex,
    messages: &[(String, &DescriptorProto)],
    named: &dyn Fn(&str) -> Option<MessageIndex>,
    enclosing: &mut Vec<MessageIndex>,
) -> u64 {
    if enclosing.contains(&message) {
        // A message within itself is boxed.
        return 8;
    }
    enclosing.push(message);
    let mut field_bytes = |field: &FieldDescriptorProto| match (field.label(), field.r#type()) {
        (Label::Repeated, _) | (_, Type::String | Type::Bytes) => CONTAINER_BYTES,
        (_, Type::Message) => named(field.type_name()).map_or(0, |of| size(of, messages, named, enclosing)) + 8,
        (_, number) => number_bytes(number) * if field.proto3_optional() { 2 } else { 1 },
    };
    let mut bytes = 0;
    let mut choices = HashMap::<i32, u64>::new();
    for field in &messages[message].1.field {
        let of_field = field_bytes(field);
        match field.oneof_index {
            Some(choice) if !field.proto3_optional() => {
                let most = choices.entry(choice).or_default();
                *most = (*most).max(of_field + 8);
            }
            _ => bytes += of_field,
        }
    }
    enclosing.pop();
    (bytes + choices.values().sum::<u64>()).next_multiple_of(8)
}

fn number_bytes(of: Type) -> u64 {
    match of {
        Type::Double | Type::Fixed64 | Type::Sfixed64 | Type::Int64 | Type::Uint64 | Type::Sint64 => 8,
        Type::Bool => 1,
        _ => 4,
    }
}

fn written(of: Type) -> u64 {
    match of {
        Type::Double | Type::Fixed64 | Type::Sfixed64 => 8,
        Type::Float | Type::Fixed32 | Type::Sfixed32 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1;

    use super::*;

    #[test]
    fn sizes_are_those_of_the_structures_or_somewhat_more() {
        let schema = Schema::known();
        let element = |method: &str, path: &[u32]| {
            let mut of = schema.request(method).unwrap();
            let mut last = 0;
            for &number in path {
                match schema.field(of, number) {
                    Some(Field::Message { of: next, element }) => (of, last) = (next, element),
                    other => panic!("{method} {path:?}: {other:?}"),
                }
            }
            last / LIST_SLACK
        };
        let cases = [
            (element("evenkeel.v1.Reward/VerifyOne", &[1, 6, 2, 1]), size_of::<v1::CodeTest>()),
            (element("evenkeel.v1.Learner/Train", &[2, 4]), size_of::<v1::TrainSample>()),
            (element("evenkeel.v1.Learner/Train", &[2, 4, 2]), size_of::<v1::Segment>()),
            (element("evenkeel.v1.Learner/Train", &[3, 1]), size_of::<v1::SupervisedExample>()),
        ];
        for (estimate, real) in cases {
            let real = real as u64;
            assert!((real..=2 * real).contains(&estimate), "{estimate} for {real}");
        }
    }

    #[test]
    fn methods_are_known_by_name() {
        let schema = Schema::known();
        assert!(schema.has_method("evenkeel.v1.Reward/Verify") && schema.has_method("grpc.health.v1.Health/Watch"));
        assert!(!schema.has_method("evenkeel.v1.Reward/Verify2") && !schema.has_method("evenkeel.v1./"));
    }
}
