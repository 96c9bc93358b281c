//! Columns as wide as what stands in them.

/// Characters between two columns.
const GAP: &str = "  ";

/// A table with a head. The last column is not filled up, and one in which nothing stands is left
/// out.
pub(super) fn table(head: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let says = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..head.len()).filter(says).collect();
    let kept = |row: &Vec<String>| columns.iter().map(|column| row[*column].clone()).collect();
    let (head, rows): (Vec<String>, Vec<Vec<String>>) =
        (kept(&head), rows.iter().map(kept).collect());
    let mut widths: Vec<usize> = head.iter().map(|cell| width(cell)).collect();
    for row in &rows {
        for (cell, widest) in row.iter().zip(&mut widths) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&head).chain(&rows) {
        let mut written = String::new();
        for (cell, widest) in row.iter().zip(&widths) {
            written.push_str(cell);
            written.extend(std::iter::repeat_n(' ', widest - width(cell)));
            written.push_str(GAP);
        }
        text.push_str(written.trim_end());
        text.push('\n');
    }
    text
}

/// How many characters are seen: our own colours are not.
fn width(cell: &str) -> usize {
    let mut seen = 0;
    let mut inside = false;
    for c in cell.chars() {
        inside = c == '\u{1b}' || inside;
        seen += usize::from(!inside);
        inside = inside && c != 'm';
    }
    seen
}
