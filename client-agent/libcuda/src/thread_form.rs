//! The forms of functions for programs that use the thread's default stream (`_ptsz`, `_ptds`).

use std::ffi::{c_int, c_uint};

use crate::abi::{Address, Bytes, Count, Data, Function, Handle, In, List, Out, Room, Unused};
use crate::api::Location;
use crate::array::Array;
use crate::context::Context;
use crate::copy3d::{Copy2D, Copy3D};
use crate::event::Event;
use crate::graph::{Exec, Graph};
use crate::launch::Callee;
use crate::pool::MadePool;
use crate::stream::{AttributeValue, Stream};

/// An argument of a function that has a form for the thread's default stream. A structure that
/// contains a stream is not one: its export selects the stream itself.
pub(crate) trait Argument: Sized {
    /// The argument as the other form takes it: the NULL stream becomes the thread's, all else is
    /// unchanged.
    fn of_thread(self) -> Self {
        self
    }
}

impl Argument for Handle<Stream> {
    fn of_thread(self) -> Self {
        match self.is_null() {
            true => Self::PER_THREAD,
            false => self,
        }
    }
}

macro_rules! unchanged {
    ($($ty:ty),* $(,)?) => {$(
        impl Argument for $ty {}
    )*};
}

unchanged! {
    u8, u16, u64, usize, c_uint, c_int, Address<'_>, Bytes<'_>, Room<'_>, Unused<'_>, Data<'_>, Callee<'_>,
    Count<'_>, Handle<Array>, Handle<Context>, Handle<Event>, Handle<Exec>, Handle<Graph>, Handle<MadePool>,
    In<'_, Copy2D<'_>>, In<'_, Copy3D<'_>>, In<'_, AttributeValue>, Location,
}

impl<T> Argument for Out<'_, T> {}
impl<T> Argument for List<'_, T> {}
impl<F> Argument for Function<'_, F> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::is_of_kind;

    #[test]
    fn the_null_stream_is_the_threads_and_no_other_is_changed() {
        let of_thread = |number| Handle::<Stream>::new(number).of_thread().number();
        assert_eq!([0, 1, 2, 0x1_0000].map(of_thread), [2, 1, 2, 0x1_0000]);
        assert!(Handle::<Event>::NULL.of_thread().is_null());
    }

    #[test]
    fn the_name_of_a_form_says_its_kind() {
        for (name, kind) in [
            ("cuMemcpyAsync_ptsz", "ptsz"),
            ("cuMemcpy_ptds", "ptds"),
            ("cuMemcpy2D_v2", "same"),
            ("cu", "same"),
        ] {
            for other in ["ptsz", "ptds", "same"] {
                assert_eq!(is_of_kind(name, other), other == kind, "{name} {other}");
            }
        }
    }
}
