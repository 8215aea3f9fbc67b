//! Access control: roles, the table of operations, tokens and logins. Decisions are functions of
//! stored data and the current time; `store.rs` does the input and output.

mod answers;
mod bucket;
mod identities;
mod identity;
mod limiter;
mod operation;
mod role;
mod secret;
mod shares;
mod store;

pub(crate) use answers::{Kept, Key};
pub(crate) use identities::Identities;
#[cfg(test)]
pub(crate) use identity::tests::identity;
pub(crate) use identity::{Identity, Means};
pub(crate) use limiter::Limiter;
pub(crate) use operation::{Operation, Scope};
pub(crate) use role::Role;
pub(crate) use secret::{Secret, digest};
pub(crate) use shares::{Full, Share, Shares};
pub(crate) use store::{AccessStore, LOGIN, TokenRecord};
