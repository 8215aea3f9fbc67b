//! Arguments of the C interface, typed by what the caller promises about them.
//!
//! An export names its arguments by these types. Each has the representation that C passes, a
//! pointer or a number. None can be made without `unsafe`; only programs make them. By calling an
//! export, a program promises what CUDA's documentation requires of its arguments. The types stand
//! for that promise, and the methods here rely on it. It ends with the call, and so do the values:
//! each borrows from the call.
//!
//! Some arguments belong together: a [`Count`] to the lists beside it, data to its function,
//! parameters to their kernel. The export says so with a lifetime that it gives to these arguments
//! only ([`Call`]). No method here accepts a pair with different lifetimes. Arguments that the
//! program keeps valid beyond the call have the lifetime `'static`.
//!
//! Some sizes follow from a table of ours, such as the size of an attribute's value. There the
//! program's promise is not enough: such methods stay `unsafe`, and the table is the reason.

#![expect(
    unsafe_code,
    reason = "reads and writes where the arguments of exports point to"
)]

use std::marker::PhantomData;

mod function;
mod handle;
mod list;
mod pointer;
mod word;

pub(crate) use function::{Data, Function, HostCall, HostFunction};
pub(crate) use handle::Handle;
pub(crate) use list::{Bytes, Count, Freed, InOutList, List, OutList, Room};
pub(crate) use pointer::{Address, Figure, In, InAny, InOut, Out, OutAny, Text, Unused, present};
pub(crate) use word::Word;

/// Ties together the arguments of a call: those of exactly the same lifetime `'c`, neither longer
/// nor shorter.
pub(crate) type Call<'c> = PhantomData<fn(&'c ()) -> &'c ()>;
