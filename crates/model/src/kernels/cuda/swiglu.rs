//! The gated activation of the feed-forward block.

use evenkeel_kernels::{swiglu, swiglu_backward};

use super::{Cuda, Device};
use crate::error::Result;
use crate::kernels::SwiGlu;

impl<D: Device> SwiGlu for Cuda<D> {
    fn swiglu(&self, gate: &Self::Matrix, up: &Self::Matrix) -> Result<Self::Matrix> {
        let y = self.blank(gate.rows(), gate.width())?;
        self.run(swiglu(self.device.properties(), gate.kind(), gate.values(), [gate.at(), up.at()], y.at()))?;
        Ok(y)
    }

    fn swiglu_backward(&self, dy: &Self::Matrix, gate: &Self::Matrix, up: &Self::Matrix) -> Result<[Self::Matrix; 2]> {
        let [dgate, dup] = [self.blank(gate.rows(), gate.width())?, self.blank(gate.rows(), gate.width())?];
        let inputs = [gate.at(), up.at()];
        let outputs = [dgate.at(), dup.at()];
        self.run(swiglu_backward(self.device.properties(), gate.kind(), gate.values(), dy.at(), inputs, outputs))?;
        Ok([dgate, dup])
    }
}
