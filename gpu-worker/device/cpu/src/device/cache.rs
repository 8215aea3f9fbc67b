//! Cache of decoded modules: each is decoded once for all sessions, on any thread.

use crate::engine::Program;
use crate::error::BuildError;
use crate::lane_loop::Isa;
use bus_schemas::{Code, Failure, FunctionFingerprint, ModuleHash};
use device::{BlockBytes, Compiler, FunctionInfo, PreparedModule, Watch};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A cached module.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) program: Arc<Program>,
    pub(super) fingerprints: Arc<[FunctionFingerprint]>,
    bytes: u64,
}

impl Prepared {
    fn info(&self) -> PreparedModule {
        let entries = self.program.entries();
        let functions = entries
            .enumerate()
            .map(|(index, (name, param_bytes))| {
                let (warp, fixed) = self.program.block_bytes(index);
                FunctionInfo {
                    name: name.to_owned(),
                    param_bytes,
                    block: BlockBytes { warp, fixed },
                }
            })
            .collect();
        PreparedModule {
            functions,
            bytes: self.bytes,
            variables: self.program.variables(),
            heap: self.program.heap(),
            compiled: None,
        }
    }
}

/// The modules of one device, by the hash of their images.
#[derive(Debug)]
pub(super) struct Cache {
    modules: Mutex<HashMap<ModuleHash, Prepared>>,
    isa: Isa,
}

impl Cache {
    /// An empty cache; modules are built for this instruction set.
    pub(super) fn new(isa: Isa) -> Self {
        Self {
            modules: Mutex::default(),
            isa,
        }
    }

    // A panic with the lock held leaves the map with or without the whole module, so it is
    // consistent.
    fn lock(&self) -> MutexGuard<'_, HashMap<ModuleHash, Prepared>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, hash: ModuleHash) -> Option<Prepared> {
        self.lock().get(&hash).cloned()
    }
}

/// True if an image is machine code for a GPU: an ELF file, or NVIDIA's container of several.
fn is_machine_code(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF") || image.starts_with(&0xba55_ed50_u32.to_le_bytes())
}

impl Compiler for Cache {
    fn compile(
        &self,
        hash: ModuleHash,
        image: &[u8],
        watch: &dyn Watch,
    ) -> Result<PreparedModule, Failure> {
        if let Some(prepared) = self.get(hash) {
            return Ok(prepared.info());
        }
        if is_machine_code(image) {
            let detail = "this worker has no GPU: it runs PTX, and the image has machine code only";
            return Err(Failure::new(Code::NoBinary, detail));
        }
        let began = Instant::now();
        // Built without the lock, because running sessions load modules meanwhile.
        let program = Program::build_watched(image, self.isa, watch).map_err(|error| {
            let code = match error {
                BuildError::Halted(_) => Code::ModuleLimit,
                _ => Code::BadModule,
            };
            Failure::new(code, error.to_string())
        })?;
        let names = program
            .entries()
            .map(|(name, _)| FunctionFingerprint::new(&hash, name));
        let fingerprints = names.collect();
        let bytes = program.bytes() + image.len() as u64;
        let prepared = Prepared {
            program,
            fingerprints,
            bytes,
        };
        let info = PreparedModule {
            compiled: Some((began, Instant::now())),
            ..prepared.info()
        };
        self.lock().insert(hash, prepared);
        Ok(info)
    }

    fn forget(&self, hash: ModuleHash) {
        let gone = self.lock().remove(&hash);
        // Freed without the lock.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use device::Unwatched;

    use super::*;

    const PTX: &[u8] =
        b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry run()\n{\nret;\n}\n";

    #[test]
    fn a_module_is_compiled_once_and_only_then_says_so() {
        let cache = Cache::new(Isa::detect());
        let hash = ModuleHash::of(PTX);
        let compile = || cache.compile(hash, PTX, &Unwatched).expect("a module");
        let first = compile();
        let (began, ended) = first.compiled.expect("it was compiled");
        assert!(began < ended);
        let again = compile();
        assert_eq!(again.compiled, None);
        let same = PreparedModule {
            compiled: None,
            ..first
        };
        assert_eq!(again, same);
        cache.forget(hash);
        assert!(compile().compiled.is_some());
    }
}
