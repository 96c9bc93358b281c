//! The story is a golden text: whoever changes it sees what changed.

use expect_test::expect_file;

#[tokio::test]
async fn the_demo_tells_its_story_and_leaves_nothing_behind() {
    let mut told = Vec::new();
    super::run(&mut told).await.expect("the story comes to its end");
    let told = String::from_utf8(told).expect("the story is text");
    expect_file!["../../demo.txt"].assert_eq(&told);
}
