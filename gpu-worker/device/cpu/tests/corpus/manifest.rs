//! The parts of a case: the JSON beside the PTX.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// One case: buffers, launches in order, and the expected contents of the buffers afterwards.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// `compiler/name`; from the path.
    #[serde(skip)]
    pub(crate) name: String,
    /// Folder of the manifest, with PTX and data.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// Device memory, in order.
    pub(crate) buffers: Vec<Buffer>,
    /// Kernels, one after another.
    pub(crate) launches: Vec<Launch>,
    /// Comparisons with the reference.
    pub(crate) checks: Vec<Check>,
}

impl Case {
    /// The compiler: the folder's name.
    pub(crate) fn compiler(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The bytes that buffers and checks refer to.
    pub(crate) fn data(&self) -> Result<Vec<u8>, String> {
        let stem = self.name.rsplit('/').next().unwrap_or_default();
        let path = self.folder.join(format!("{stem}.bin"));
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// One allocation and its contents before the first launch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Buffer {
    /// Element type, in NumPy's words: `float32`, `int64`; `float16` is never generated.
    pub(crate) dtype: String,
    /// Number of elements.
    pub(crate) count: usize,
    /// Initial contents.
    pub(crate) fill: Fill,
    /// The module variable, if it is one; no memory is allocated then.
    pub(crate) symbol: Option<String>,
}

/// Initial contents of a buffer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Fill {
    /// Zeros.
    Zero,
    /// Integers from `low` to before `high`; all of them if both are the same.
    Integers { seed: u64, low: i64, high: i64 },
    /// Floats from `low` to before `high`.
    Uniform { seed: u64, low: f64, high: f64 },
    /// Bytes of the case's data file, from here.
    Data(usize),
}

/// One launch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Launch {
    /// File with the PTX.
    pub(crate) ptx: String,
    /// Entry in it.
    pub(crate) entry: String,
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads of a block.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
    /// Parameters, in order.
    pub(crate) args: Vec<Arg>,
}

/// One parameter, or a field of a structure.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Arg {
    /// Address of a buffer, and bytes added to it.
    Buffer(usize, u64),
    /// Bytes of a scalar or a plain structure, and their alignment: in hexadecimal.
    Bytes(String, usize),
    /// A structure: its alignment and fields.
    Struct(usize, Vec<Arg>),
}

/// A comparison of part of a buffer with the reference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// Index of the buffer.
    pub(crate) buffer: usize,
    /// First byte in it.
    pub(crate) from: usize,
    /// Element type.
    pub(crate) dtype: String,
    /// Number of elements.
    pub(crate) count: usize,
    /// Offset of the expected elements in the data file.
    pub(crate) data: usize,
    /// Allowed error relative to the expected value; if both errors are 0, bit for bit.
    pub(crate) relative: f64,
    /// Allowed absolute error.
    pub(crate) absolute: f64,
    /// Compare as a multiset.
    pub(crate) unordered: bool,
}

/// Every case below a folder, by name.
pub(crate) fn all(folder: &Path) -> Result<Vec<Case>, String> {
    let read = |path: &Path| {
        let list = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()));
        list.map(|list| list.filter_map(|entry| Some(entry.ok()?.path())))
    };
    let mut cases = Vec::new();
    for compiler in read(folder)?.filter(|path| path.is_dir()) {
        let word = compiler
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for path in read(&compiler)?.filter(|path| path.extension().is_some_and(|x| x == "json")) {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let mut case: Case = serde_json::from_str(&text)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            case.name = format!("{word}/{stem}");
            case.folder.clone_from(&compiler);
            cases.push(case);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}
