//! Arrow's columns as the values of rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, PrimitiveArray};
use arrow_schema::{DataType, Field, Fields};
use evenkeel_files::hex;
use serde_json::{Map, Number, Value};

/// The value of a column in a row.
pub(super) type Values = Box<dyn Fn(usize) -> Value>;

/// Reads a column. Decimals become texts, so that no digit is lost; of structures and lists every part is read.
///
/// # Errors
/// The type, where no value of a row has it.
pub(super) fn values(column: &ArrayRef) -> Result<Values, DataType> {
    let values = match column.data_type() {
        DataType::Null => Box::new(|_| Value::Null),
        DataType::Boolean => scalar(column.as_boolean().clone(), |column, row| column.value(row).into()),
        DataType::Int8 => integer::<Int8Type>(column),
        DataType::Int16 => integer::<Int16Type>(column),
        DataType::Int32 => integer::<Int32Type>(column),
        DataType::Int64 => integer::<Int64Type>(column),
        DataType::UInt8 => integer::<UInt8Type>(column),
        DataType::UInt16 => integer::<UInt16Type>(column),
        DataType::UInt32 => integer::<UInt32Type>(column),
        DataType::UInt64 => integer::<UInt64Type>(column),
        DataType::Float16 => primitive::<Float16Type>(column, |value| shortest(value.to_f32())),
        DataType::Float32 => primitive::<Float32Type>(column, shortest),
        DataType::Float64 => primitive::<Float64Type>(column, Value::from),
        DataType::Decimal32(..) => decimal::<Decimal32Type>(column),
        DataType::Decimal64(..) => decimal::<Decimal64Type>(column),
        DataType::Decimal128(..) => decimal::<Decimal128Type>(column),
        DataType::Decimal256(..) => decimal::<Decimal256Type>(column),
        DataType::Utf8 => scalar(column.as_string::<i32>().clone(), |column, row| column.value(row).into()),
        DataType::Utf8View => scalar(column.as_string_view().clone(), |column, row| column.value(row).into()),
        DataType::Binary => scalar(column.as_binary::<i32>().clone(), |column, row| text(column.value(row))),
        DataType::BinaryView => scalar(column.as_binary_view().clone(), |column, row| text(column.value(row))),
        DataType::FixedSizeBinary(_) => {
            scalar(column.as_fixed_size_binary().clone(), |column, row| hex(column.value(row)).into())
        }
        DataType::List(_) => list(column.as_list::<i32>())?,
        DataType::LargeList(_) => list(column.as_list::<i64>())?,
        DataType::Struct(_) => structure(column)?,
        DataType::Map(..) => map(column)?,
        other => return Err(other.clone()),
    };
    Ok(values)
}

/// The same type with texts that stay where the decoder put them, instead of being copied to a column of their own.
pub(super) fn viewed(field: &Field) -> Field {
    let inner = |field: &Arc<Field>| Arc::new(viewed(field));
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Fields>()),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

fn scalar<A: Array + 'static>(column: A, value: impl Fn(&A, usize) -> Value + 'static) -> Values {
    Box::new(move |row| if column.is_null(row) { Value::Null } else { value(&column, row) })
}

fn primitive<T: ArrowPrimitiveType>(column: &ArrayRef, value: impl Fn(T::Native) -> Value + 'static) -> Values {
    let column: PrimitiveArray<T> = column.as_primitive::<T>().clone();
    scalar(column, move |column, row| value(column.value(row)))
}

fn integer<T: ArrowPrimitiveType<Native: Into<Number>>>(column: &ArrayRef) -> Values {
    primitive::<T>(column, |value| Value::Number(value.into()))
}

fn decimal<T: DecimalType + ArrowPrimitiveType>(column: &ArrayRef) -> Values {
    let column: PrimitiveArray<T> = column.as_primitive::<T>().clone();
    scalar(column, |column, row| column.value_as_string(row).into())
}

/// The number that prints with the digits of the narrower type: 0.1, and not 0.10000000149.
fn shortest(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// Some writers do not say of a text that it is one.
fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or(Value::Null, Value::from)
}

fn list<O: OffsetSizeTrait>(column: &GenericListArray<O>) -> Result<Values, DataType> {
    let items = values(column.values())?;
    Ok(scalar(column.clone(), move |column, row| {
        let offsets = column.value_offsets();
        (offsets[row].as_usize()..offsets[row + 1].as_usize()).map(&items).collect()
    }))
}

fn structure(column: &ArrayRef) -> Result<Values, DataType> {
    let column = column.as_struct().clone();
    let fields = column.fields().iter().zip(column.columns());
    let fields = fields.map(|(field, part)| Ok((field.name().clone(), values(part)?)));
    let fields = fields.collect::<Result<Vec<_>, DataType>>()?;
    Ok(scalar(column, move |_, row| {
        Value::Object(fields.iter().map(|(name, values)| (name.clone(), values(row))).collect())
    }))
}

fn map(column: &ArrayRef) -> Result<Values, DataType> {
    let column = column.as_map().clone();
    let (keys, entries) = (values(column.keys())?, values(column.values())?);
    Ok(scalar(column, move |column, row| {
        let offsets = column.value_offsets();
        let entry = |index: usize| {
            let key = keys(index);
            (key.as_str().map_or_else(|| key.to_string(), str::to_owned), entries(index))
        };
        Value::Object((offsets[row] as usize..offsets[row + 1] as usize).map(entry).collect::<Map<_, _>>())
    }))
}
