//! The arguments that a parameter accepts.

/// The error for an argument that the manual refuses: `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: i32 = 1;

/// A kind of object that programs name by a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// `CUarray`.
    Array,
    /// `CUcontext`.
    Context,
    /// `CUevent`.
    Event,
    /// `CUgraphExec`.
    Exec,
    /// `CUfunction`.
    Function,
    /// `CUgraph`.
    Graph,
    /// `CUkernel`.
    Kernel,
    /// `CUlibrary`.
    Library,
    /// `CUlinkState`.
    Link,
    /// `CUmipmappedArray`.
    Mipmapped,
    /// `CUmodule`.
    Module,
    /// `CUgraphNode`.
    Node,
    /// `CUmemGenericAllocationHandle`.
    Physical,
    /// `CUmemoryPool`.
    Pool,
    /// `CUstream`; null is a default stream.
    Stream,
    /// `CUsurfObject`.
    Surface,
    /// `CUtexObject`.
    Texture,
    /// `CUuserObject`.
    User,
}

/// The role of a parameter, which determines the arguments that it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterRole {
    /// A pointer to the destination of an answer; null is refused.
    Out,
    /// A pointer to the destination of an answer; null means that the answer is not wanted.
    OutIf,
    /// A pointer to a structure, a text or an image that the call reads; null is refused.
    In,
    /// A pointer that the call reads through if it is not null.
    InIf,
    /// The name of a kernel; null is refused.
    KernelName,
    /// The name of a variable; null is refused.
    VariableName,
    /// The path of a file; null is refused.
    Path,
    /// A pointer to the first of several items; a [`ParameterRole::Count`] gives their number.
    List,
    /// Number of items in lists; 0 is allowed.
    Count,
    /// A number of bytes or items that is at least 1.
    Size,
    /// A set of flags: any of these bits.
    Flags(u64),
    /// A context's flags: any of these bits, and of the low three at most one.
    ContextFlags(u64),
    /// An enumerator: one of these numbers.
    OneOf(&'static [i64]),
    /// A device.
    Device,
    /// A handle that must name an object.
    Handle(Object),
    /// A handle; null has a special meaning.
    HandleIf(Object),
    /// An address of device memory.
    Address,
    /// An address of host memory.
    Host,
    /// A function of the program; null is refused.
    Callback,
    /// Any value; only the function itself can check it.
    Any,
}

impl ParameterRole {
    /// The code by which an argument is refused whatever the other arguments are, or 0. `word` is
    /// the argument as the C interface passes it, sign-extended to 64 bits.
    #[must_use]
    #[inline]
    pub const fn refusal(self, word: u64) -> i32 {
        let is_right = match self {
            Self::Out
            | Self::In
            | Self::KernelName
            | Self::VariableName
            | Self::Path
            | Self::Callback
            | Self::Size => word != 0,
            Self::Flags(mask) => word & !mask == 0,
            Self::ContextFlags(mask) => word & !mask == 0 && (word & 7).count_ones() < 2,
            Self::OneOf(numbers) => contains(numbers, word),
            _ => true,
        };
        if is_right { 0 } else { INVALID_VALUE }
    }

    /// Says whether it refuses any argument at all.
    #[must_use]
    pub const fn refuses(self) -> bool {
        !matches!(
            self,
            Self::OutIf
                | Self::InIf
                | Self::List
                | Self::Count
                | Self::Device
                | Self::Handle(_)
                | Self::HandleIf(_)
                | Self::Address
                | Self::Host
                | Self::Any
        )
    }
}

const fn contains(numbers: &[i64], word: u64) -> bool {
    let mut at = 0;
    while at < numbers.len() {
        if numbers[at].cast_unsigned() == word {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_refused_by_their_role_alone() {
        for (role, right, wrong) in [
            (ParameterRole::Out, 8, Some(0)),
            (ParameterRole::OutIf, 0, None),
            (ParameterRole::Size, 1, Some(0)),
            (ParameterRole::Flags(5), 4, Some(2)),
            (ParameterRole::Flags(0), 0, Some(1 << 40)),
            (ParameterRole::ContextFlags(0xff), 0x84, Some(3)),
            (ParameterRole::OneOf(&[-1, 2]), u64::MAX, Some(0)),
            (ParameterRole::Any, 0, None),
        ] {
            assert_eq!(role.refusal(right), 0, "{role:?}");
            assert_eq!(role.refuses(), wrong.is_some(), "{role:?}");
            if let Some(wrong) = wrong {
                assert_eq!(role.refusal(wrong), 1, "{role:?}");
            }
        }
    }
}
