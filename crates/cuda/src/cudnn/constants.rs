//! Constants of cuDNN's backend API, as its header `cudnn_graph_v9.h` has them. They are the same in every version 9.

/// An enumeration of the header, with its attribute type.
macro_rules! constants {
    ($(#[$meta:meta])* $name:ident: $kind:literal { $($variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub(super) enum $name {
            $($variant = $value,)*
        }

        impl Value for $name {
            const KIND: i32 = $kind;
        }
    };
}

/// What an attribute can hold.
pub(super) trait Value: Copy {
    /// Code of the type in `cudnnBackendAttributeType_t`.
    const KIND: i32;
}

impl Value for bool {
    const KIND: i32 = 2;
}
impl Value for i64 {
    const KIND: i32 = 3;
}
impl Value for f32 {
    const KIND: i32 = 4;
}
impl Value for *mut std::ffi::c_void {
    const KIND: i32 = 6;
}
impl Value for i32 {
    const KIND: i32 = 23;
}
impl Value for u8 {
    const KIND: i32 = 24;
}

constants! {
    /// Element types, cuDNN's `cudnnDataType_t`.
    DataType: 1 {
        F32 = 0,
        I32 = 4,
        Bf16 = 9,
        Bool = 11,
    }
}

constants! {
    /// Ways to choose an engine, cuDNN's `cudnnBackendHeurMode_t`.
    Heuristic: 8 {
        A = 3,
        Fallback = 2,
    }
}

constants! {
    /// Elementwise operations, cuDNN's `cudnnPointwiseMode_t`.
    Pointwise: 14 {
        Add = 0,
        Multiply = 1,
        Divide = 6,
        Subtract = 9,
        Exp = 13,
        Log = 15,
        Identity = 21,
        GreaterOrEqual = 303,
        Less = 304,
        And = 400,
        Index = 501,
        Select = 601,
    }
}

constants! {
    /// Reductions, cuDNN's `cudnnReduceTensorOp_t`.
    Reduction: 18 {
        Sum = 0,
        Max = 3,
    }
}

/// Types of descriptors, cuDNN's `cudnnBackendDescriptorType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum DescriptorType {
    Pointwise = 0,
    EngineConfig = 3,
    EngineHeuristic = 4,
    Plan = 5,
    OperationPointwise = 13,
    OperationGraph = 15,
    VariantPack = 16,
    Tensor = 17,
    Product = 18,
    OperationProduct = 19,
    Reduction = 21,
    OperationReduction = 22,
    OperationReshape = 31,
    Device = 38,
}

/// `cudnnBackendAttributeName_t`, each named after the descriptor that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Attribute {
    PointwiseMode = 0,
    PointwisePrecision = 1,
    PointwiseAxis = 9,
    HeuristicMode = 200,
    HeuristicGraph = 201,
    HeuristicResults = 202,
    HeuristicDevice = 204,
    PlanEngineConfig = 401,
    PlanWorkspace = 402,
    PlanJson = 405,
    PlanDevice = 407,
    OperationPointwise = 750,
    OperationPointwiseX = 751,
    OperationPointwiseB = 752,
    OperationPointwiseY = 753,
    OperationPointwiseAlpha1 = 754,
    OperationPointwiseAlpha2 = 755,
    OperationPointwiseT = 758,
    GraphOperations = 801,
    TensorAlignment = 900,
    TensorType = 901,
    TensorDimensions = 902,
    TensorStrides = 903,
    TensorId = 906,
    TensorIsVirtual = 907,
    TensorIsByValue = 908,
    TensorRaggedOffset = 913,
    PackIds = 1000,
    PackPointers = 1001,
    PackWorkspace = 1003,
    ProductPrecision = 1500,
    OperationProductA = 1520,
    OperationProductB = 1521,
    OperationProductC = 1522,
    OperationProduct = 1523,
    OperationProductRows = 1525,
    OperationProductColumns = 1526,
    OperationProductInner = 1527,
    ReductionOperator = 1600,
    ReductionPrecision = 1601,
    ReductionIsDeterministic = 1602,
    OperationReductionX = 1610,
    OperationReductionY = 1611,
    OperationReduction = 1612,
    OperationReshapeX = 2200,
    OperationReshapeY = 2201,
    DeviceNumber = 2700,
    DeviceJson = 2702,
}
