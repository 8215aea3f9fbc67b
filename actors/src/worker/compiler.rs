//! Prepares images on a thread of its own, where the device can have that: neither the bus nor what
//! runs waits for a module that somebody has just sent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use bus_schemas::{Code, Failure, ModuleHash};
use device::Compiler;

use super::thread::{Deed, Teller};

/// The thread's handle. It ends when this is dropped, after the image it is at.
pub(super) struct CompilerThread {
    images: Sender<(ModuleHash, Option<Arc<[u8]>>)>,
}

impl CompilerThread {
    pub(super) fn start(compiler: Arc<dyn Compiler>, teller: Teller) -> std::io::Result<Self> {
        let (images, received) = channel::<(ModuleHash, Option<Arc<[u8]>>)>();
        std::thread::Builder::new()
            .name("compiler".into())
            .spawn(move || {
                for (hash, image) in received {
                    let Some(image) = image else {
                        compiler.forget(hash);
                        continue;
                    };
                    // Whoever sent an image that breaks the compiler is told so, and nobody else
                    // has to do without one.
                    let compiled = || compiler.compile(hash, &image);
                    let answer = catch_unwind(AssertUnwindSafe(compiled)).unwrap_or_else(|_| {
                        let why = "the image broke the compiler";
                        Err(Failure::new(Code::BadModule, why))
                    });
                    teller.tell(&mut vec![Deed::Prepared(hash, answer)]);
                }
            })?;
        Ok(Self { images })
    }

    /// Drops what came of an image, behind those sent before.
    pub(super) fn forget(&self, hash: ModuleHash) {
        let _ = self.images.send((hash, None));
    }

    /// Prepares an image, soon; [`Deed::Prepared`] says what came of it.
    pub(super) fn compile(&self, hash: ModuleHash, image: Arc<[u8]>) {
        // The thread ends only when this end is dropped.
        let _ = self.images.send((hash, Some(image)));
    }
}
