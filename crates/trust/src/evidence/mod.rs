//! What scores say, as pure functions of them: nothing here asks, waits or decides what is done about it.

pub(crate) mod samples;
pub(crate) mod weights;
