//! The PTX images of `tests/kernels`, which describes each entry and its parameters.

/// One PTX image.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// The file's name, without `.ptx`.
    pub name: &'static str,
    /// The PTX text.
    pub ptx: &'static str,
    /// The kernels in it, in the order of the text.
    pub entries: &'static [&'static str],
}

impl Image {
    /// The image in the form that a device takes.
    #[must_use]
    pub const fn bytes(&self) -> &'static [u8] {
        self.ptx.as_bytes()
    }
}

macro_rules! images {
    ($($(#[$doc:meta])* $constant:ident = $name:literal: $entries:expr;)*) => {
        $(
            $(#[$doc])*
            pub const $constant: Image = Image {
                name: $name,
                ptx: include_str!(concat!("../../../tests/kernels/", $name, ".ptx")),
                entries: &$entries,
            };
        )*
        /// Every image.
        pub const ALL: &[Image] = &[$($constant),*];
    };
}

images! {
    /// The decoder of `chat`.
    CHAT = "chat": [
        "chat_embed", "chat_layernorm", "chat_matvec", "chat_cache_append", "chat_attention",
        "chat_gelu", "chat_residual", "chat_argmax",
    ];
    /// Corners of the instruction set.
    CORNERS = "corners": [
        "corners_constant", "corners_global", "corners_local", "corners_rounding",
        "corners_warp", "corners_divergence", "corners_double", "corners_integer",
        "corners_dynamic", "corners_narrow", "corners_convert",
    ];
    /// A kernel that does nothing.
    EMPTY = "empty": ["empty"];
    /// Kernels that must end with an error of their tenant.
    FAULTY = "faulty": [
        "faulty_write", "faulty_misaligned", "faulty_endless", "faulty_trap", "faulty_shared",
    ];
    /// Atomics in shared and global memory.
    HISTOGRAM = "histogram": ["histogram", "atomics"];
    /// Matrix products by `mma` and `wmma`.
    MATMUL_MMA = "matmul_mma": ["matmul_f16_mma", "matmul_f16_wmma", "matmul_s8_mma"];
    /// y = a * x + y.
    SAXPY = "saxpy": ["saxpy"];
    /// Prefix sums.
    SCAN = "scan": ["scan_blocks", "scan_offsets"];
    /// Functions that kernels call although no module defines them.
    RUNTIME = "runtime": ["runtime_print", "runtime_printed", "runtime_heap", "runtime_assert"];
    /// The ranking of `search`.
    SEARCH = "search": ["search_gather", "search_matmul", "search_softmax"];
    /// Blocks that spin until another block has acted.
    SPIN = "spin": ["spin_lock", "spin_turns"];
    /// The step of `train`.
    TRAIN = "train": [
        "train_matmul", "train_matmul_at", "train_matmul_bt", "train_sum", "train_activate",
        "train_activate_gradient", "train_error", "train_update", "train_assign",
    ];
    /// out = a + b.
    VECTOR_ADD = "vector_add": ["vector_add"];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_entry_is_listed() {
        for image in ALL {
            let mut found: Vec<&str> = image
                .ptx
                .lines()
                .filter_map(|line| line.strip_prefix(".visible .entry "))
                .map(|rest| rest.split('(').next().unwrap_or(rest))
                .collect();
            let mut listed = image.entries.to_vec();
            found.sort_unstable();
            listed.sort_unstable();
            assert_eq!(found, listed, "{}", image.name);
        }
    }

    #[test]
    fn every_file_is_listed_and_has_its_source_and_its_description() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels");
        let names = |extension: &str| -> BTreeSet<String> {
            let files = std::fs::read_dir(&folder).expect("the kernels' folder");
            files
                .map(|file| file.expect("a file").path())
                .filter(|path| path.extension().is_some_and(|found| found == extension))
                .map(|path| {
                    path.file_stem()
                        .expect("a stem")
                        .to_string_lossy()
                        .into_owned()
                })
                .collect()
        };
        let listed: BTreeSet<String> = ALL.iter().map(|image| image.name.to_owned()).collect();
        assert_eq!(names("ptx"), listed);
        assert_eq!(names("cu"), listed);
        let readme = std::fs::read_to_string(folder.join("README.md")).expect("README.md");
        for entry in ALL.iter().flat_map(|image| image.entries) {
            assert!(
                readme.contains(&format!("`{entry}`")),
                "README.md lacks {entry}"
            );
        }
    }
}
