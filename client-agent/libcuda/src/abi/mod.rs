//! Arguments of the C interface, by what the caller promises of them.
//!
//! An export names its arguments by these types; each has the form of what C passes, a pointer or a
//! number. None can be made without `unsafe`, and programs are all who make them: by calling an export,
//! a program promises what CUDA's documentation asks of its arguments. That promise is what the types
//! stand for, and the methods here are where it is used. It ends with the call, and so do the values:
//! each borrows from it.
//!
//! A [`Count`] belongs to the lists beside it in the same call. Where a size follows from a table of
//! ours (how large the answer to an attribute is), the program's promise is not enough: such methods
//! stay `unsafe`, and the table is the reason.

#![expect(
    unsafe_code,
    reason = "reads and writes where the arguments of exports point to"
)]

mod function;
mod handle;
mod list;
mod pointer;

pub(crate) use function::{Data, Function, HostCall, HostFunction};
pub(crate) use handle::Handle;
pub(crate) use list::{Bytes, Count, InOutList, List, OutList, Room};
pub(crate) use pointer::{Address, Figure, In, InAny, InOut, Out, OutAny, Text};
