//! Tables of columns.

use comfy_table::{ContentArrangement, Table, presets};
use unicode_width::UnicodeWidthStr as _;

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

/// Lines of rows without a heading, two cells of the terminal apart. A column is as wide as its widest value of at most
/// `widest` cells; a wider one moves only the rest of its own line.
pub(crate) fn aligned(rows: &[Vec<String>], widest: usize) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.width()).filter(|width| *width <= widest).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let padded = |(cell, width): (&String, &usize)| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())));
    let line = |row: &Vec<String>| row.iter().zip(&widths).map(padded).collect::<Vec<_>>().join("  ");
    rows.iter().map(|row| line(row).trim_end().to_owned()).collect()
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

    #[test]
    fn rows_align_by_cells_of_the_terminal_and_a_long_value_moves_its_own_line() {
        let rows = [["\u{4e2d}\u{56fd}", "1", "a"], ["web1", "22", "b"], ["much too long", "3", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows, 10), ["\u{4e2d}\u{56fd}  1   a", "web1  22  b", "much too long  3"]);
        assert!(aligned(&[], 10).is_empty());
    }
}
