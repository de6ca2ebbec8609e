//! Tables of columns.

use comfy_table::{ContentArrangement, Table, presets};

/// Lines of a table with a heading. Columns are as wide as their widest cell, and no line is wrapped.
pub(crate) fn table<R>(heading: R, rows: impl IntoIterator<Item = R>) -> Vec<String>
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_cells_of_the_terminal() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned);
        let lines = table(row(["HOST", "OK"]), [row(["web1", "3"]), row(["\u{4e2d}\u{56fd}host", "12"])]);
        assert_eq!(lines, ["HOST      OK", "web1      3", "\u{4e2d}\u{56fd}host  12"]);
    }
}
