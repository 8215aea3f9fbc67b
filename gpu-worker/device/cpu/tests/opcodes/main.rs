//! One instruction at a time, on edge and random values, against expectations written without
//! the engine; with the vector lane loops and with the portable ones.

#![expect(
    clippy::needless_range_loop,
    reason = "a check runs over several lists at once"
)]

mod conversions;
mod floats;
mod integers;
mod lanes;
