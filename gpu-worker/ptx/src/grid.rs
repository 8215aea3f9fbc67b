//! The workspace of a grid with blocks that wait for one another.
//!
//! Code of cooperative groups finds it at the address in the special registers `%envreg1` (its upper half)
//! and `%envreg2` (its lower half), which the driver sets. Here it is a variable of the module. Every launch
//! of the module uses the same one, and its barrier needs no reset.

/// Bytes of the workspace: its size, and the words with which blocks count themselves.
const WORKSPACE: &str = ".global .align 256 .b8 warploom_grid_workspace[256];\n";

/// True if kernels of a text wait for their whole grid: through those registers, or through the device
/// runtime's function that returns a handle of the grid.
#[must_use]
pub fn waits_for_grid(text: &[u8]) -> bool {
    let words: [&[u8]; 3] = [b"%envreg1", b"%envreg2", b"cudaCGGetIntrinsicHandle"];
    words
        .iter()
        .any(|word| memchr::memmem::find(text, word).is_some())
}

/// Returns the image with a workspace in place of those registers; `None` if it does not read them.
#[must_use]
pub fn with_grid_workspace(text: &str) -> Option<String> {
    if !text.contains("%envreg1") && !text.contains("%envreg2") {
        return None;
    }
    let mut out = String::with_capacity(text.len() + 1024);
    let mut is_declared = false;
    for line in text.split_inclusive('\n') {
        // The variable goes before the first item and takes no line of its own.
        let begins = [
            ".visible", ".entry", ".func", ".extern", ".weak", ".global", ".const",
        ];
        if !is_declared
            && begins
                .iter()
                .any(|word| line.trim_start().starts_with(word))
        {
            out.push_str(WORKSPACE.trim_end());
            out.push(' ');
            is_declared = true;
        }
        match replaced(line) {
            Some(line) => out.push_str(&line),
            None => out.push_str(line),
        }
    }
    Some(out)
}

/// Replaces a line that moves one of the registers.
fn replaced(line: &str) -> Option<String> {
    let (to, which) = line
        .trim()
        .strip_prefix("mov.u32")?
        .trim()
        .strip_suffix(';')?
        .split_once(',')?;
    let halves = match which.trim() {
        "%envreg1" => format!("{{%wlh, {}}}", to.trim()),
        "%envreg2" => format!("{{{}, %wlh}}", to.trim()),
        _ => return None,
    };
    Some(format!(
        "{{ .reg .b64 %wlw; .reg .b32 %wlh; mov.u64 %wlw, warploom_grid_workspace; \
         mov.b64 {halves}, %wlw; }}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModuleInfo;

    #[test]
    fn the_registers_become_a_variable_and_lines_stay_where_they_were() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n\n.visible .entry k()\n{\n\
                    .reg .b32 %r<3>;\n\tmov.u32 \t%r1, %envreg2;\n mov.u32 %r2, %envreg1;\n ret;\n}\n";
        let with = with_grid_workspace(text).expect("it reads them");
        assert!(!with.contains("envreg"), "{with}");
        assert_eq!(with.lines().count(), text.lines().count());
        let info = ModuleInfo::parse(with.as_bytes()).expect("it parses");
        assert_eq!(info.globals[0].size, 256);
        let waits = [text, &with].map(|text| waits_for_grid(text.as_bytes()));
        assert_eq!(waits, [true, false]);
        assert_eq!(with_grid_workspace(&text.replace("envreg", "pm")), None);
    }
}
