//! Scripts of defects that were found and fixed: each is played, and must pass.

use std::path::Path;

use sim_faults::{Options, Script, play};

#[test]
fn what_was_mended_stays_mended() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut played = 0;
    for entry in std::fs::read_dir(&folder).expect("the scripts are there") {
        let path = entry.expect("the folder can be read").path();
        let text = std::fs::read_to_string(&path).expect("a script can be read");
        let script = Script::read(&text).expect("it is a script");
        if let Err(failure) = play(&script.scene, &Options::default()) {
            panic!("{}: {failure}", path.display());
        }
        played += 1;
    }
    assert!(played > 0, "no script is kept");
}
