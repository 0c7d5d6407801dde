//! What the states of a run have in common.

use crate::v1::RunState;

impl RunState {
    /// Whether the run is over: nothing follows, unless it is resumed.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Stopped | Self::Failed)
    }
}
