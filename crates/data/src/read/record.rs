//! Parquet's records as the values of rows.

use ::parquet::basic::{ConvertedType, Type as PhysicalType};
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::{ColumnDescriptor, Type};
use evenkeel_host::hex;
use serde_json::{Map, Value};

use super::Columns;

/// Whether values of this column have no place in a row.
pub(super) fn is_interval(column: &ColumnDescriptor) -> bool {
    column.converted_type() == ConvertedType::INTERVAL
}

/// The part of a schema whose leaves are read. Lists and maps are read whole or not at all.
pub(super) fn projection(schema: &Type, columns: &Columns) -> Type {
    let mut path = Vec::new();
    projected(schema, columns, &mut path).unwrap_or_else(|| {
        // Rows are counted also where nobody reads a column of them.
        Type::group_type_builder(schema.name()).build().expect("a group without fields is valid")
    })
}

fn projected(part: &Type, columns: &Columns, path: &mut Vec<String>) -> Option<Type> {
    if part.is_primitive() {
        return columns.take(path).then(|| part.clone());
    }
    let fields = part.get_fields().iter().filter_map(|field| {
        path.push(field.name().to_owned());
        let field = projected(field, columns, path);
        path.pop();
        field.map(Into::into)
    });
    let fields: Vec<_> = fields.collect();
    if fields.is_empty() {
        return None;
    }
    let info = part.get_basic_info();
    let mut group = Type::group_type_builder(part.name())
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_fields(fields);
    if info.has_repetition() {
        group = group.with_repetition(info.repetition());
    }
    Some(group.build().expect("a part of a valid group is valid"))
}

/// A record as a row. Decimals become texts, so that no digit is lost, and so do dates and times; bytes of a fixed
/// length, such as UUIDs, become hex.
pub(super) fn row(record: Row, schema: &Type) -> Map<String, Value> {
    let fields = record.into_columns().into_iter().zip(schema.get_fields());
    fields.map(|((name, field), part)| (name, value(field, part))).collect()
}

fn value(field: Field, part: &Type) -> Value {
    match field {
        Field::Str(text) => text.into(),
        Field::Group(record) => Value::Object(row(record, part)),
        Field::Bytes(bytes) if part.get_physical_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY => {
            hex(bytes.data()).into()
        }
        other => borrowed(&other),
    }
}

fn borrowed(field: &Field) -> Value {
    match field {
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float16(value) => shortest(value.to_f32()),
        Field::Float(value) => shortest(*value),
        Field::Double(value) => (*value).into(),
        Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => field.to_string().into(),
        // A whole number is displayed followed by a point.
        Field::Decimal(_) => field.to_string().trim_end_matches('.').into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => bytes_value(bytes.data()),
        Field::Group(row) => row.get_column_iter().map(|(name, field)| (name.clone(), borrowed(field))).collect(),
        Field::ListInternal(list) => list.elements().iter().map(borrowed).collect(),
        Field::MapInternal(map) => {
            let key = |key: &Field| match borrowed(key) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            map.entries().iter().map(|(name, field)| (key(name), borrowed(field))).collect()
        }
        Field::Null => Value::Null,
    }
}

/// The number that prints with the digits of the narrower type: 0.1, and not 0.10000000149.
fn shortest(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// Some writers do not say of a text that it is one.
fn bytes_value(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or(Value::Null, Value::from)
}
