//! A kernel's fault: all that is known of it, and the text that carries it in [`crate::Failure::detail`].

use std::fmt;
use std::str::FromStr;

use crate::limits;

/// The kind of a kernel's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Outside every live allocation, or a write to constant memory.
    IllegalAddress,
    /// Not a multiple of the access size.
    Misaligned,
    /// An instruction that cannot run (an indirect branch or call to an invalid address).
    IllegalInstruction,
    /// `trap`.
    Trap,
    /// `assert` of something false.
    Assert,
    /// Out of fuel, killed, or waiting for something that cannot happen.
    Timeout,
    /// Calls nested too deeply.
    StackOverflow,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::IllegalAddress,
        Self::Misaligned,
        Self::IllegalInstruction,
        Self::Trap,
        Self::Assert,
        Self::Timeout,
        Self::StackOverflow,
    ];

    /// The kind in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::IllegalAddress => "illegal address",
            Self::Misaligned => "misaligned address",
            Self::IllegalInstruction => "illegal instruction",
            Self::Trap => "trap",
            Self::Assert => "assertion",
            Self::Timeout => "timeout",
            Self::StackOverflow => "stack overflow",
        }
    }
}

/// The memory access of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultAccess {
    /// True for a write, and for an atomic operation.
    pub write: bool,
    /// Bytes of one thread's access.
    pub bytes: u64,
}

impl fmt::Display for FaultAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.write { "write" } else { "read" };
        let unit = if self.bytes == 1 { "byte" } else { "bytes" };
        write!(f, "{kind} of {} {unit}", self.bytes)
    }
}

/// A line of a program's source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    file: String,
    line: u32,
}

impl SourceLine {
    /// Creates the line. Of a long path only the end is kept; an empty one is no place.
    #[must_use]
    pub fn new(file: &str, line: u32) -> Option<Self> {
        let plain = file.replace(char::is_control, "_");
        // The words behind the file in a fault's text.
        let plain = plain.replace(PTX_LINE, "PTX_line ");
        let from = plain.len().saturating_sub(limits::FAULT_FILE_BYTES);
        let from = (from..=plain.len()).find(|at| plain.is_char_boundary(*at));
        let file = plain.get(from?..)?.to_owned();
        (!file.is_empty()).then_some(Self { file, line })
    }

    /// The file, as the compiler named it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The words before an instruction's line.
const PTX_LINE: &str = "PTX line ";

/// A kernel's fault. Its text is one line, and [`KernelFault::from_str`] reads it back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelFault {
    kind: FaultKind,
    kernel: String,
    source: Option<SourceLine>,
    ptx_line: u32,
    block: [u32; 3],
    thread: [u32; 3],
    access: Option<FaultAccess>,
    address: Option<u64>,
    detail: String,
}

/// The error of a text that is no fault's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a kernel's fault")]
pub struct KernelFaultError;

impl KernelFault {
    /// Creates the fault of a thread at a line of PTX. A long name is cut.
    #[must_use]
    pub fn new(
        kind: FaultKind,
        kernel: &str,
        ptx_line: u32,
        (block, thread): ([u32; 3], [u32; 3]),
    ) -> Self {
        let kernel = cut(kernel, limits::FAULT_KERNEL_BYTES);
        Self {
            kind,
            kernel: kernel.replace(|c: char| c.is_control() || c == '`', "_"),
            source: None,
            ptx_line,
            block,
            thread,
            access: None,
            address: None,
            detail: String::new(),
        }
    }

    /// Adds the line of the source.
    #[must_use]
    pub fn at(mut self, source: Option<SourceLine>) -> Self {
        self.source = source;
        self
    }

    /// Adds the access, and the address as the kernel formed it.
    #[must_use]
    pub fn of(mut self, access: Option<FaultAccess>, address: Option<u64>) -> Self {
        (self.access, self.address) = (access, address);
        self
    }

    /// Adds an explanation. A long one is cut.
    #[must_use]
    pub fn because(mut self, detail: &str) -> Self {
        let plain = detail.replace(char::is_control, " ");
        self.detail = cut(&plain, limits::FAULT_DETAIL_BYTES).to_owned();
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The entry that ran.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The line of the source, if the module was compiled with lines.
    #[must_use]
    pub fn source(&self) -> Option<&SourceLine> {
        self.source.as_ref()
    }

    /// The line of the instruction in the module's text.
    #[must_use]
    pub fn ptx_line(&self) -> u32 {
        self.ptx_line
    }

    /// The index of the block in the grid.
    #[must_use]
    pub fn block(&self) -> [u32; 3] {
        self.block
    }

    /// The index of the thread in the block.
    #[must_use]
    pub fn thread(&self) -> [u32; 3] {
        self.thread
    }

    /// The access, if it is one of memory.
    #[must_use]
    pub fn access(&self) -> Option<FaultAccess> {
        self.access
    }

    /// The accessed address, if any.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        self.address
    }

    /// The explanation: for an illegal address, the allocation that it missed. It may be empty.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Kind, kernel and lines, for people.
    #[must_use]
    pub fn headline(&self) -> String {
        let (kind, kernel, line) = (self.kind.text(), &self.kernel, self.ptx_line);
        match &self.source {
            Some(source) => format!("{kind} in kernel `{kernel}`, {source} ({PTX_LINE}{line})"),
            None => format!("{kind} in kernel `{kernel}`, {PTX_LINE}{line}"),
        }
    }

    /// Block, thread, access and explanation: the second part of the fault's text.
    #[must_use]
    pub fn place(&self) -> String {
        Place(self).to_string()
    }
}

/// The second part of a fault's text.
struct Place<'a>(&'a KernelFault);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = self.0;
        write!(f, "block {:?}, thread {:?}", it.block, it.thread)?;
        match (it.access, it.address) {
            (Some(access), Some(address)) => write!(f, ", {access} at {address:#x}")?,
            (Some(access), None) => write!(f, ", {access}")?,
            (None, Some(address)) => write!(f, ", address {address:#x}")?,
            (None, None) => {}
        }
        match it.detail.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", it.detail),
        }
    }
}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in kernel `{}`, ", self.kind.text(), self.kernel)?;
        if let Some(source) = &self.source {
            write!(f, "{source}, ")?;
        }
        write!(f, "{PTX_LINE}{}, {}", self.ptx_line, Place(self))
    }
}

impl FromStr for KernelFault {
    type Err = KernelFaultError;

    fn from_str(text: &str) -> Result<Self, KernelFaultError> {
        // Other forms of the same numbers, and texts beyond the bounds, are not written.
        let read = read(text).filter(|read| read.to_string() == text);
        read.ok_or(KernelFaultError)
    }
}

fn read(text: &str) -> Option<KernelFault> {
    let mut kinds = FaultKind::ALL.into_iter();
    let (kind, rest) = kinds.find_map(|kind| Some((kind, text.strip_prefix(kind.text())?)))?;
    let (kernel, rest) = rest.strip_prefix(" in kernel `")?.split_once("`, ")?;
    let (before, rest) = rest.split_once(PTX_LINE)?;
    let source = match before {
        "" => None,
        before => {
            let (file, line) = before.strip_suffix(", ")?.rsplit_once(':')?;
            Some(SourceLine::new(file, line.parse().ok()?)?)
        }
    };
    let (ptx_line, rest) = rest.split_once(", block [")?;
    let (block, rest) = rest.split_once("], thread [")?;
    let (thread, rest) = rest.split_once(']')?;
    let place = (three(block)?, three(thread)?);
    let fault = KernelFault::new(kind, kernel, ptx_line.parse().ok()?, place).at(source);
    let (access, detail) = match rest.split_once(": ") {
        Some((access, detail)) => (access, detail),
        None => (rest, ""),
    };
    let (access, address) = match access.strip_prefix(", ") {
        Some(access) => accessed(access)?,
        None => (None, None),
    };
    Some(fault.of(access, address).because(detail))
}

fn three(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.splitn(3, ", ").map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Reads an access and an address; one of them may be missing.
fn accessed(text: &str) -> Option<(Option<FaultAccess>, Option<u64>)> {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    if let Some(address) = text.strip_prefix("address ") {
        return Some((None, Some(hex(address)?)));
    }
    let (access, address) = match text.split_once(" at ") {
        Some((access, address)) => (access, Some(hex(address)?)),
        None => (text, None),
    };
    let (kind, size) = access.split_once(" of ")?;
    let access = FaultAccess {
        write: kind == "write",
        bytes: size.split_once(' ')?.0.parse().ok()?,
    };
    Some((Some(access), address))
}

/// The start of a text, of at most so many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rfind(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "illegal address in kernel `saxpy`, src/saxpy.cu:12, PTX line 34, block [1, 0, 0], \
                        thread [5, 0, 0], read of 4 bytes at 0x7f0000001000: at the end of an allocation of \
                        4096 bytes at 0x7f0000000000";

    fn saxpy() -> KernelFault {
        let access = FaultAccess {
            write: false,
            bytes: 4,
        };
        KernelFault::new(
            FaultKind::IllegalAddress,
            "saxpy",
            34,
            ([1, 0, 0], [5, 0, 0]),
        )
        .at(SourceLine::new("src/saxpy.cu", 12))
        .of(Some(access), Some(0x7f00_0000_1000))
        .because("at the end of an allocation of 4096 bytes at 0x7f0000000000")
    }

    #[test]
    fn a_fault_is_written_and_read() {
        let fault = saxpy();
        assert_eq!(fault.to_string(), TEXT);
        assert_eq!(TEXT.parse(), Ok(fault.clone()));
        assert_eq!(
            fault.headline(),
            "illegal address in kernel `saxpy`, src/saxpy.cu:12 (PTX line 34)"
        );
        assert!(TEXT.ends_with(&fault.place()));
    }

    #[test]
    fn older_texts_are_read() {
        let old = "trap in kernel `f`, PTX line 5, block [0, 0, 0], thread [31, 0, 0]: a trap";
        let fault: KernelFault = old.parse().expect("a fault");
        assert_eq!((fault.source(), fault.detail()), (None, "a trap"));
        let old = "misaligned address in kernel `f`, PTX line 5, block [0, 0, 0], thread [3, 0, 0], address 0x2: odd";
        let fault: KernelFault = old.parse().expect("a fault");
        assert_eq!((fault.address(), fault.access()), (Some(2), None));
    }

    #[test]
    fn other_text_is_refused() {
        for (from, to) in [
            ("illegal address", "illegal"),
            ("34", "034"),
            ("34", "99999999999"),
            ("[1, 0, 0]", "[1, 0]"),
            ("[1, 0, 0]", "[1, 0, 0, 0]"),
            ("bytes at", "byte at"),
            ("read", "look"),
            ("0x7f0000001000", "7f0000001000"),
            (":12", ""),
            ("`, ", ""),
            ("saxpy.cu", "\u{7}.cu"),
        ] {
            let bad = TEXT.replacen(from, to, 1);
            assert_eq!(bad.parse::<KernelFault>(), Err(KernelFaultError), "{bad}");
        }
    }

    #[test]
    fn every_text_is_bounded() {
        let long = "é".repeat(5_000);
        let fault = KernelFault::new(FaultKind::Trap, &long, u32::MAX, ([u32::MAX; 3], [0; 3]))
            .at(SourceLine::new(&long, u32::MAX))
            .because(&long);
        assert_eq!(fault.kernel().len(), limits::FAULT_KERNEL_BYTES);
        assert_eq!(
            fault.source().map(|it| it.file().len()),
            Some(limits::FAULT_FILE_BYTES)
        );
        assert_eq!(fault.detail().len(), limits::FAULT_DETAIL_BYTES);
        assert_eq!(fault.to_string().parse(), Ok(fault));
        // The start of a text is a fault too, unless it is cut before the explanation.
        let cut = cut(TEXT, TEXT.len() - 9);
        assert_eq!(cut.parse::<KernelFault>().map(|it| it.ptx_line()), Ok(34));
    }

    proptest! {
        #[test]
        fn any_fault_survives_its_text(
            (kind, kernel, file) in (0_usize..7, "\\PC{0,300}", "([a-z/:,`]|PTX line |\\PC){0,300}"),
            (line, ptx_line, block, thread) in any::<(u32, u32, [u32; 3], [u32; 3])>(),
            (access, address) in any::<(Option<(bool, u64)>, Option<u64>)>(),
            detail in "([a-z: ,]|: |\\PC|\n){0,300}",
        ) {
            let access = access.map(|(write, bytes)| FaultAccess { write, bytes });
            let fault = KernelFault::new(FaultKind::ALL[kind], &kernel, ptx_line, (block, thread))
                .at(SourceLine::new(&file, line))
                .of(access, address)
                .because(&detail);
            let text = fault.to_string();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(text.parse(), Ok(fault));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}", at in 0..TEXT.len(), to in 0..TEXT.len()) {
            let _ = text.parse::<KernelFault>();
            let mangled = format!("{}{text}{}", &TEXT[..at], &TEXT[to..]);
            if let Ok(fault) = mangled.parse::<KernelFault>() {
                prop_assert_eq!(fault.to_string(), mangled);
            }
        }
    }
}
