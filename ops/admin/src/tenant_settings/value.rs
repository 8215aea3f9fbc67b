//! The fields of a tenant's settings as values of the interface.

use bus_schemas::{Allowance, Groups};
use serde_json::Value;

use super::kind::groups;

/// A field that is a value of the interface.
pub(super) trait Field: Sized {
    /// The value.
    fn value(&self) -> Value;

    /// The field of a value; `None` if the value is of another type or too large.
    fn of(value: &Value) -> Option<Self>;
}

macro_rules! number {
    ($($number:ty)*) => {$(
        impl Field for $number {
            fn value(&self) -> Value {
                (*self).into()
            }

            fn of(value: &Value) -> Option<Self> {
                value.as_u64()?.try_into().ok()
            }
        }
    )*};
}

number!(u8 u32 u64);

impl Field for bool {
    fn value(&self) -> Value {
        (*self).into()
    }

    fn of(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Field for Allowance {
    fn value(&self) -> Value {
        match self.is_none() {
            true => 0.into(),
            false => self.bytes().into(),
        }
    }

    fn of(value: &Value) -> Option<Self> {
        Some(match value.as_u64()? {
            0 => Self::NONE,
            bytes => Self::of(bytes),
        })
    }
}

impl Field for Groups {
    fn value(&self) -> Value {
        self.names().collect()
    }

    fn of(value: &Value) -> Option<Self> {
        groups(value)
    }
}
