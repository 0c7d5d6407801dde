//! Messages of Tinker's API that are protobuf: requests of `forward_backward`, and the results of it and of sampling.
//! Fields of bytes are arrays in little-endian order.

use std::collections::{BTreeMap, HashMap};

use prost::Message;

/// `Content-Type` of all of them.
pub(crate) const PROTOBUF: &str = "application/x-protobuf";

/// Element types of arrays.
pub(crate) const FLOAT32: i32 = 1;
pub(crate) const INT64: i32 = 2;
pub(crate) const INT32: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ForwardBackwardRequest {
    #[prost(string, tag = "1")]
    pub(crate) model_id: String,
    #[prost(int32, tag = "2")]
    pub(crate) seq_id: i32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) data: Vec<Datum>,
    #[prost(string, tag = "4")]
    pub(crate) loss_fn: String,
    #[prost(map = "string, double", tag = "5")]
    pub(crate) loss_fn_config: HashMap<String, f64>,
    #[prost(bool, tag = "6")]
    pub(crate) forward_only: bool,
    #[prost(map = "string, message", tag = "7")]
    pub(crate) loss_fn_config_v2: HashMap<String, LossConfigValue>,
}

/// By what a [`ForwardBackwardRequest`] takes its place among the requests of its model.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ForwardBackwardPlace {
    #[prost(string, tag = "1")]
    pub(crate) model_id: String,
    #[prost(int32, tag = "2")]
    pub(crate) seq_id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LossConfigValue {
    #[prost(oneof = "LossConfigKind", tags = "1, 2")]
    pub(crate) kind: Option<LossConfigKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum LossConfigKind {
    #[prost(double, tag = "1")]
    Number(f64),
    #[prost(string, tag = "2")]
    Text(String),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Datum {
    #[prost(message, repeated, tag = "1")]
    pub(crate) model_input: Vec<Chunk>,
    #[prost(map = "string, message", tag = "2")]
    pub(crate) loss_fn_inputs: HashMap<String, Tensor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Chunk {
    /// Absent for images and sound.
    #[prost(message, optional, tag = "1")]
    pub(crate) encoded_text: Option<EncodedText>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedText {
    /// int32.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) tokens: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    /// Absent for sparse arrays.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(crate) dense: Option<Vec<u8>>,
    #[prost(int32, tag = "3")]
    pub(crate) dtype: i32,
    #[prost(int64, repeated, tag = "4")]
    pub(crate) shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ForwardBackwardOutput {
    #[prost(string, tag = "1")]
    pub(crate) loss_fn_output_type: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) loss_fn_outputs: Vec<ArrayRecord>,
    #[prost(btree_map = "string, double", tag = "3")]
    pub(crate) metrics: BTreeMap<String, f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ArrayRecord {
    #[prost(string, tag = "1")]
    pub(crate) type_tag: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(crate) fields: BTreeMap<String, BatchedTensor>,
    #[prost(int64, tag = "3")]
    pub(crate) num_datums: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BatchedTensor {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) data: Vec<u8>,
    /// int64: where each datum begins, in bytes, and where the last one ends.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) offsets: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(crate) dtype: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SampleResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) sequences: Vec<SampledSequence>,
    /// float32, NaN for the first token.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(crate) prompt_logprobs: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SampledSequence {
    /// 0: a stop token or text; 1: the length.
    #[prost(int32, tag = "1")]
    pub(crate) stop_reason: i32,
    /// int32.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) tokens: Vec<u8>,
    /// float32.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) logprobs: Vec<u8>,
}

/// Elements of an array.
pub(crate) fn elements<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
    let (parts, rest) = bytes.as_chunks::<N>();
    rest.is_empty().then(|| parts.iter().map(|part| read(*part)).collect())
}

/// An array of float32.
pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The result of a pass: one array for all datums.
pub(crate) fn logprobs(of_datums: &[Vec<f32>], metrics: BTreeMap<String, f64>) -> Vec<u8> {
    let mut offsets = vec![0i64];
    for datum in of_datums {
        offsets.push(offsets[offsets.len() - 1] + 4 * datum.len() as i64);
    }
    let tensor = BatchedTensor {
        data: of_datums.iter().flat_map(|datum| floats(datum)).collect(),
        offsets: offsets.into_iter().flat_map(i64::to_le_bytes).collect(),
        dtype: FLOAT32,
    };
    let record = ArrayRecord {
        type_tag: "ArrayRecord".to_owned(),
        fields: BTreeMap::from([("logprobs".to_owned(), tensor)]),
        num_datums: of_datums.len() as i64,
    };
    ForwardBackwardOutput { loss_fn_output_type: "ArrayRecord".to_owned(), loss_fn_outputs: vec![record], metrics }
        .encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_the_offsets_of_its_datums_in_bytes() {
        let bytes = logprobs(&[vec![-1.0, -2.0], vec![-0.5]], BTreeMap::from([("loss:sum".to_owned(), 3.5)]));
        let output = ForwardBackwardOutput::decode(bytes.as_slice()).unwrap();
        let tensor = &output.loss_fn_outputs[0].fields["logprobs"];
        assert_eq!(elements(&tensor.offsets, i64::from_le_bytes).unwrap(), [0, 8, 12]);
        assert_eq!(elements(&tensor.data, f32::from_le_bytes).unwrap(), [-1.0, -2.0, -0.5]);
        assert_eq!((output.loss_fn_outputs[0].num_datums, output.metrics["loss:sum"]), (2, 3.5));
    }

    #[test]
    fn an_array_with_half_an_element_is_none() {
        assert_eq!(elements(&[0, 0, 0, 0, 1], i32::from_le_bytes), None);
    }
}
