//! The record plane: the chains of the launch order, their seals, and usage.

pub(crate) mod chain;
pub(crate) mod kernel;
pub(crate) mod profile;
pub(crate) mod seal;
pub(crate) mod unstored;
pub(crate) mod usage;
