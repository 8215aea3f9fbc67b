//! The source of a library's program: PTX or machine code; and the report if none of them runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;

use crate::fatbin::Entry;
use crate::lock::lock;
use crate::status::{Status, note};

/// The source of a library's program.
pub(crate) enum Source {
    /// A text, or machine code, as it was given.
    Bare(Box<[u8]>),
    /// An entry of a fatbin; unpacked at the first use.
    Packed(Entry<'static>),
    /// Texts of several fatbins; unpacked and linked at the first use.
    Parts(Vec<Entry<'static>>),
    /// Machine code of a fatbin, and the text source of the same program, if there is one.
    Code(Entry<'static>, Option<Box<Source>>),
    /// No source that runs.
    Unfit(Missing),
}

/// The reason why there is no program.
#[derive(Debug)]
pub(crate) struct Missing {
    /// True if the image is for a device that runs machine code.
    pub(crate) on_gpu: bool,
    /// The contents that it has instead.
    pub(crate) has: String,
    /// The file that it came from.
    pub(crate) origin: Option<String>,
}

/// A status with its reason.
pub(crate) type Wrong = (Status, String);

fn unpacked(entry: &Entry<'_>) -> Result<Vec<u8>, Wrong> {
    let image = entry.image();
    image.map_err(|refusal| (Status::INVALID_IMAGE, refusal.to_string()))
}

impl Source {
    /// The text, or the machine code.
    pub(super) fn image(&self) -> Result<Vec<u8>, Wrong> {
        match self {
            Self::Bare(image) => Ok(image.to_vec()),
            Self::Packed(entry) => unpacked(entry),
            Self::Parts(entries) => {
                let texts = entries.iter().map(unpacked);
                let texts = texts.collect::<Result<Vec<_>, _>>()?;
                let images = texts.iter().map(|image| ptx::LinkImage {
                    name: "a part of the program",
                    image,
                });
                let linked = ptx::link(&images.collect::<Vec<_>>());
                let linked = linked.map_err(|error| unlinked(&error.to_string()))?;
                Ok(linked.into_bytes())
            }
            // Only a driver's own launch of a whole grid puts the grid's workspace where machine
            // code looks for it. In a text, we add the workspace.
            Self::Code(code, text) => match text {
                Some(text) if text.waits_for_grid() => text.image(),
                _ => unpacked(code),
            },
            Self::Unfit(missing) => Err((Status::NO_BINARY_FOR_GPU, missing.has.clone())),
        }
    }

    /// True if kernels of its text wait for their whole grid.
    fn waits_for_grid(&self) -> bool {
        let waits = |entry: &Entry<'_>| {
            let text = entry.image();
            text.is_ok_and(|text| ptx::waits_for_grid(&text))
        };
        match self {
            Self::Packed(entry) => waits(entry),
            Self::Parts(entries) => entries.iter().any(waits),
            _ => false,
        }
    }
}

/// Functions of the device runtime by which kernels launch kernels.
const LAUNCHERS: [&str; 3] = [
    "cudaLaunchDevice",
    "cudaGetParameterBuffer",
    "cudaDeviceSynchronize",
];

/// The reason why parts of a program cannot be linked. It is written to stderr under
/// `warploom run`, because the runtime has no message for it.
fn unlinked(error: &str) -> Wrong {
    let text = match LAUNCHERS.iter().any(|name| error.contains(name)) {
        true => "the program launches kernels from kernels (dynamic parallelism), which is not \
                 supported"
            .to_owned(),
        false => format!("the program's device code cannot be linked: {error}"),
    };
    if std::env::var_os("WARPLOOM_SESSIONS").is_some() {
        // stderr may be closed.
        let _ = writeln!(std::io::stderr(), "warploom: {text}");
    }
    (Status::NOT_SUPPORTED, text)
}

/// Requests for images that do not run: kernels by the file that contains them.
static REFUSED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// The message about the last one.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Maximum number of files that are counted separately.
const FILES: usize = 256;

impl Missing {
    /// Advice about the compiler, which ran before the program or within it.
    fn advice(&self) -> &'static str {
        match (self.on_gpu, &self.origin) {
            (true, _) => "the GPU needs machine code for its architecture, or PTX",
            (false, Some(_)) => {
                "a worker without a GPU runs PTX only, so build it with `-gencode \
                 arch=compute_80,code=compute_80`, or use a cluster whose workers have GPUs"
            }
            (false, None) => {
                "the program compiled it while it runs, and a worker without a GPU runs PTX only: have its \
                 compiler make PTX (NVRTC does for `compute_80`, and makes machine code for `sm_80`), or use a \
                 cluster whose workers have GPUs"
            }
        }
    }

    /// Reports that a missing kernel was requested, once in the program's life under
    /// `warploom run`.
    pub(super) fn asked_for(&self, kernel: &str) -> Wrong {
        let file = self.origin.as_deref().unwrap_or("memory");
        let text = format!(
            "{kernel} of {file} has no PTX: {}; {}",
            self.has,
            self.advice()
        );
        let mut refused = lock(&REFUSED);
        let first = refused.is_empty();
        if refused.len() < FILES || refused.contains_key(file) {
            *refused.entry(file.to_owned()).or_default() += 1;
        }
        drop(refused);
        if first && std::env::var_os("WARPLOOM_SESSIONS").is_some() {
            // stderr may be closed.
            let _ = writeln!(std::io::stderr(), "warploom: {text}");
        }
        lock(&LAST).clone_from(&text);
        note(Status::NO_BINARY_FOR_GPU, text.clone());
        (Status::NO_BINARY_FOR_GPU, text)
    }
}

/// Number of refused kernels, by file.
pub(crate) fn refusals() -> Vec<(String, u64)> {
    let refused = lock(&REFUSED);
    refused
        .iter()
        .map(|(file, count)| (file.clone(), *count))
        .collect()
}

/// Number of refused kernels, and the message about the last one.
pub(crate) fn last_refusal() -> (u64, String) {
    let count = lock(&REFUSED).values().sum();
    (count, lock(&LAST).clone())
}

/// The refused kernels, for `--stats`; empty if there are none.
pub(crate) fn refused() -> String {
    let refused = lock(&REFUSED);
    let rows: Vec<_> = refused
        .iter()
        .map(|(file, count)| format!("{count} of {file}"))
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("; kernels without PTX: {}", rows.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatbin::{choose, machine_code, tests};

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    /// The part that is taken from a container with machine code beside this text.
    fn taken(text: &str) -> Vec<u8> {
        let container = tests::container(&[tests::code(90), tests::text(80, text)]);
        let target = tests::gpu(90);
        let code = machine_code(&container, target).expect("a fatbin");
        let text = choose(&container, target).expect("it has PTX");
        let text = Source::Packed(text.owned());
        let source = Source::Code(code.expect("it has some").owned(), Some(Box::new(text)));
        source.image().map_err(|wrong| wrong.1).expect("an image")
    }

    #[test]
    fn advice_is_for_the_compiler_that_made_the_image() {
        let said = |on_gpu, origin: Option<&str>| {
            let missing = Missing {
                has: "machine code for sm_90".into(),
                origin: origin.map(str::to_owned),
                on_gpu,
            };
            missing.asked_for("k").1
        };
        assert!(
            said(false, Some("liba.so"))
                .contains("k of liba.so has no PTX: machine code for sm_90; ")
        );
        assert!(said(false, Some("liba.so")).contains("-gencode"));
        let made = said(false, None);
        assert!(
            made.contains("NVRTC") && !made.contains("-gencode"),
            "{made}"
        );
        assert!(!said(true, None).contains("NVRTC"));
    }

    #[test]
    fn a_program_that_waits_for_its_grid_is_taken_as_a_text() {
        let plain = format!("{HEAD}.entry k() {{ ret; }}");
        assert!(ptx::is_machine_code(&taken(&plain)));
        let waits = format!("{HEAD}.entry k() {{ .reg .b32 %r; mov.u32 %r, %envreg2; ret; }}");
        assert_eq!(taken(&waits), waits.as_bytes());
    }
}
