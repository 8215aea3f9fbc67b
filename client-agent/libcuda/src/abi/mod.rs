//! Arguments of the C interface, by what the caller promises of them.
//!
//! An export names its arguments by these types; each has the form of what C passes, a pointer or a
//! number. None can be made without `unsafe`, and programs are all who make them: by calling an export,
//! a program promises what CUDA's documentation asks of its arguments. That promise is what the types
//! stand for, and the methods here are where it is used. It ends with the call, and so do the values:
//! each borrows from it.
//!
//! Some arguments belong together: a [`Count`] to the lists beside it, data to its function, parameters
//! to their kernel. The export says so with a lifetime that it gives to these arguments and to no other
//! ([`Call`]), and nothing here takes a pair of which the lifetimes are not the same. What the program
//! keeps beyond the call has the lifetime `'static`.
//!
//! Where a size follows from a table of ours (how large the answer to an attribute is), the program's
//! promise is not enough: such methods stay `unsafe`, and the table is the reason.

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

/// The arguments of a call that belong together: those of the same lifetime `'c`, neither a longer nor
/// a shorter one.
pub(crate) type Call<'c> = PhantomData<fn(&'c ()) -> &'c ()>;
