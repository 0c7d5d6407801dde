//! Operation graphs: tensors, and operations between them.

use super::CudnnError;
use super::api::Api;
use super::constants::{Attribute as A, DataType, DescriptorType, Pointwise, Reduction};
use super::descriptor::Descriptor;

/// Bytes that every address is divisible by.
const ALIGNMENT: i64 = 16;
/// The first identifier of a tensor that has no address.
const VIRTUAL: i64 = 1000;

/// Four dimensions of a tensor and the values between two elements along each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) dimensions: [i64; 4],
    pub(super) strides: [i64; 4],
}

impl Layout {
    pub(super) fn rows(dimensions: [i64; 4]) -> Self {
        let [_, b, c, d] = dimensions;
        Self { dimensions, strides: [b * c * d, c * d, d, 1] }
    }

    /// This layout with the last two dimensions exchanged.
    pub(super) fn t(self) -> Self {
        let [a, b, c, d] = self.dimensions;
        let [i, j, k, l] = self.strides;
        Self { dimensions: [a, b, d, c], strides: [i, j, l, k] }
    }
}

/// A tensor of a graph, by its position there.
#[derive(Clone, Copy)]
pub(super) struct Tensor(usize);

/// A graph that is being made.
pub(super) struct Graph {
    api: &'static Api,
    tensors: Vec<Descriptor>,
    modes: Vec<Descriptor>,
    operations: Vec<Descriptor>,
    next: i64,
}

/// A graph that is final, with everything that it was made of.
pub(super) struct OperationGraph {
    descriptor: Descriptor,
    _made_of: Graph,
}

impl OperationGraph {
    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }
}

impl Graph {
    pub(super) fn new(api: &'static Api) -> Self {
        Self { api, tensors: Vec::new(), modes: Vec::new(), operations: Vec::new(), next: VIRTUAL }
    }

    /// A tensor with an address. In a ragged one, element i of the first dimension begins this many values after the
    /// address as element i of `ragged` says.
    pub(super) fn array(
        &mut self,
        id: i64,
        kind: DataType,
        layout: Layout,
        ragged: Option<Tensor>,
    ) -> Result<Tensor, CudnnError> {
        self.tensor(id, kind, layout, ragged, |_| Ok(()))
    }

    /// A number that the host gives.
    pub(super) fn number(&mut self, id: i64) -> Result<Tensor, CudnnError> {
        let by_value = |tensor: &mut Descriptor| tensor.set(A::TensorIsByValue, &[true]);
        self.tensor(id, DataType::F32, Layout::rows([1; 4]), None, by_value)
    }

    /// A result that no one but other operations reads.
    pub(super) fn between(
        &mut self,
        kind: DataType,
        layout: Layout,
        ragged: Option<Tensor>,
    ) -> Result<Tensor, CudnnError> {
        self.next += 1;
        self.tensor(self.next, kind, layout, ragged, |tensor| tensor.set(A::TensorIsVirtual, &[true]))
    }

    fn tensor(
        &mut self,
        id: i64,
        kind: DataType,
        layout: Layout,
        ragged: Option<Tensor>,
        more: impl FnOnce(&mut Descriptor) -> Result<(), CudnnError>,
    ) -> Result<Tensor, CudnnError> {
        let mut descriptor = Descriptor::new(self.api, DescriptorType::Tensor)?;
        descriptor.set(A::TensorType, &[kind])?;
        descriptor.set(A::TensorDimensions, &layout.dimensions)?;
        descriptor.set(A::TensorStrides, &layout.strides)?;
        descriptor.set(A::TensorId, &[id])?;
        descriptor.set(A::TensorAlignment, &[ALIGNMENT])?;
        if let Some(offsets) = ragged {
            descriptor.refer(A::TensorRaggedOffset, &[self.of(offsets)])?;
        }
        more(&mut descriptor)?;
        descriptor.finalize()?;
        self.tensors.push(descriptor);
        Ok(Tensor(self.tensors.len() - 1))
    }

    fn of(&self, Tensor(position): Tensor) -> &Descriptor {
        &self.tensors[position]
    }

    /// y = a b. The lengths say how many rows, columns and terms there are in each element of the batch.
    pub(super) fn product(&mut self, [a, b, y]: [Tensor; 3], lengths: &[(A, Tensor)]) -> Result<(), CudnnError> {
        let mut product = Descriptor::new(self.api, DescriptorType::Product)?;
        product.set(A::ProductPrecision, &[DataType::F32])?;
        product.finalize()?;
        let mut operation = Descriptor::new(self.api, DescriptorType::OperationProduct)?;
        operation.refer(A::OperationProductA, &[self.of(a)])?;
        operation.refer(A::OperationProductB, &[self.of(b)])?;
        operation.refer(A::OperationProductC, &[self.of(y)])?;
        operation.refer(A::OperationProduct, &[&product])?;
        for &(attribute, length) in lengths {
            operation.refer(attribute, &[self.of(length)])?;
        }
        self.modes.push(product);
        self.add(operation)
    }

    /// y = mode(x, b), or what `select` says: x where it is true, b where not.
    pub(super) fn pointwise(
        &mut self,
        mode: Pointwise,
        x: Tensor,
        b: Option<Tensor>,
        select: Option<Tensor>,
        y: Tensor,
    ) -> Result<(), CudnnError> {
        let precision = match mode {
            Pointwise::Less | Pointwise::GreaterOrEqual | Pointwise::And => DataType::Bool,
            _ => DataType::F32,
        };
        let mut pointwise = Descriptor::new(self.api, DescriptorType::Pointwise)?;
        pointwise.set(A::PointwiseMode, &[mode])?;
        pointwise.set(A::PointwisePrecision, &[precision])?;
        pointwise.finalize()?;
        self.apply(pointwise, x, b, select, y)
    }

    /// y = the index of each element along an axis.
    pub(super) fn index(&mut self, axis: i64, precision: DataType, x: Tensor, y: Tensor) -> Result<(), CudnnError> {
        let mut pointwise = Descriptor::new(self.api, DescriptorType::Pointwise)?;
        pointwise.set(A::PointwiseMode, &[Pointwise::Index])?;
        pointwise.set(A::PointwisePrecision, &[precision])?;
        pointwise.set(A::PointwiseAxis, &[axis])?;
        pointwise.finalize()?;
        self.apply(pointwise, x, None, None, y)
    }

    fn apply(
        &mut self,
        pointwise: Descriptor,
        x: Tensor,
        b: Option<Tensor>,
        select: Option<Tensor>,
        y: Tensor,
    ) -> Result<(), CudnnError> {
        let mut operation = Descriptor::new(self.api, DescriptorType::OperationPointwise)?;
        operation.refer(A::OperationPointwise, &[&pointwise])?;
        operation.refer(A::OperationPointwiseX, &[self.of(x)])?;
        operation.refer(A::OperationPointwiseY, &[self.of(y)])?;
        for (attribute, other) in [(A::OperationPointwiseB, b), (A::OperationPointwiseT, select)] {
            if let Some(other) = other {
                operation.refer(attribute, &[self.of(other)])?;
            }
        }
        operation.set(A::OperationPointwiseAlpha1, &[1f32])?;
        operation.set(A::OperationPointwiseAlpha2, &[1f32])?;
        self.modes.push(pointwise);
        self.add(operation)
    }

    /// y = the sum or the largest along the dimensions that y lacks.
    pub(super) fn reduce(&mut self, operator: Reduction, x: Tensor, y: Tensor) -> Result<(), CudnnError> {
        let mut reduction = Descriptor::new(self.api, DescriptorType::Reduction)?;
        reduction.set(A::ReductionPrecision, &[DataType::F32])?;
        reduction.set(A::ReductionOperator, &[operator])?;
        reduction.set(A::ReductionIsDeterministic, &[false])?;
        reduction.finalize()?;
        let mut operation = Descriptor::new(self.api, DescriptorType::OperationReduction)?;
        operation.refer(A::OperationReduction, &[&reduction])?;
        operation.refer(A::OperationReductionX, &[self.of(x)])?;
        operation.refer(A::OperationReductionY, &[self.of(y)])?;
        self.modes.push(reduction);
        self.add(operation)
    }

    /// y = x in y's layout.
    pub(super) fn reshape(&mut self, x: Tensor, y: Tensor) -> Result<(), CudnnError> {
        let mut operation = Descriptor::new(self.api, DescriptorType::OperationReshape)?;
        operation.refer(A::OperationReshapeX, &[self.of(x)])?;
        operation.refer(A::OperationReshapeY, &[self.of(y)])?;
        self.add(operation)
    }

    fn add(&mut self, mut operation: Descriptor) -> Result<(), CudnnError> {
        operation.finalize()?;
        self.operations.push(operation);
        Ok(())
    }

    pub(super) fn finalize(self) -> Result<OperationGraph, CudnnError> {
        let mut descriptor = Descriptor::new(self.api, DescriptorType::OperationGraph)?;
        descriptor.refer(A::GraphOperations, &self.operations.iter().collect::<Vec<_>>())?;
        descriptor.finalize()?;
        Ok(OperationGraph { descriptor, _made_of: self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_layout_exchanges_the_last_two_dimensions_with_their_strides() {
        let layout = Layout { dimensions: [2, 3, 4, 5], strides: [600, 5, 15, 1] };
        assert_eq!(layout.t(), Layout { dimensions: [2, 3, 5, 4], strides: [600, 5, 1, 15] });
        assert_eq!(layout.t().t(), layout);
        assert_eq!(Layout::rows([2, 3, 4, 5]).strides, [60, 20, 5, 1]);
    }
}
