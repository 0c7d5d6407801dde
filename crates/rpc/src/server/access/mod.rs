//! Who may call what: a caller authenticates with a token or a certificate, which has a role; every method has a least
//! role.

mod credentials;
mod http_token_auth;
mod layer;
mod methods;

pub use http_token_auth::HttpTokenAuth;
pub(super) use layer::AccessLayer;
