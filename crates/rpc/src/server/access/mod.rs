//! Who may call what: a caller proves itself with a token or a certificate, which has a role; every method has a least role.

mod credentials;
mod gate;
mod layer;
mod methods;

pub use gate::Gate;
pub(super) use layer::AccessLayer;
