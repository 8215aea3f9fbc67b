//! docs/errors.md lists every code with its number, CUDA error and whether to retry.

use bus_schemas::Code;

#[test]
fn every_code_is_documented() {
    let text = include_str!("../../docs/errors.md");
    for code in Code::ALL {
        let retry = if code.retryable() { "yes" } else { "no" };
        let row = format!(
            "| {} | {} | {} | {retry} |",
            code.number(),
            code.name(),
            code.cuda()
        );
        assert!(text.contains(&row), "docs/errors.md lacks the row {row:?}");
    }
}
