//! Arguments as words, which the table of the API checks.

/// An argument that the table of the API can check.
pub(crate) trait Word {
    /// The argument as C passes it, sign-extended to 64 bits. A structure that is passed by value
    /// is 0: the table has no rule for it.
    fn word(&self) -> u64;
}

macro_rules! numbers {
    ($($ty:ty => $wide:ty),*) => {$(
        impl Word for $ty {
            #[inline]
            fn word(&self) -> u64 {
                (*self as $wide) as u64
            }
        }
    )*};
}
impl Word for f32 {
    #[inline]
    fn word(&self) -> u64 {
        u64::from(self.to_bits())
    }
}

numbers!(u8 => u64, u16 => u64, u32 => u64, u64 => u64, usize => u64, i32 => i64);
