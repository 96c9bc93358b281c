// Every page as people see it: drawn, readable, in both themes and sizes, with nothing refused by the browser.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { PHONE, WIDE, audit, caller, close, closeBrowser, leave, live, look, open, picture } from './house.mjs';
import { fill } from './scene.mjs';

let house;
let tasks;
let pages;

before(async () => {
  house = await open();
  tasks = await fill(house);
  pages = [
    ['inbox', '/inbox'],
    ['board', '/board'],
    ['runs', '/runs'],
    ['agents', '/agents'],
    ['run', `/tasks/${tasks.question}`],
    ['run-events', `/tasks/${tasks.question}?tab=events`],
    ['run-logs', `/tasks/${tasks.question}?tab=logs`],
    ['run-diff', `/tasks/${tasks.question}?tab=diff`],
    ['run-handoff', `/tasks/${tasks.question}?tab=handoff`],
    ['nothing', '/runs?q=label:nowhere'],
  ];
});

after(async () => {
  await closeBrowser();
  await close(house);
});

for (const [size, width] of [[WIDE, 1440], [PHONE, 390]]) {
  for (const theme of ['dark', 'light']) {
    test(`every page is drawn and axe finds nothing: ${theme}, ${width} wide`, async () => {
      const page = await look(house, { size, theme });
      for (const [name, url] of pages) {
        await page.goto(house.url + url);
        await live(page);
        await picture(page, `${name}-${theme}-${width}`);
        assert.deepEqual(await audit(page), [], `${name} ${theme}`);
        const { scrollWidth, clientWidth } = await page.evaluate(() => document.documentElement);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(wide <= 0, `${name} is ${wide} wider than the window (${scrollWidth}, ${clientWidth})`);
      }
      assert.deepEqual(page.complaints, []);
      await leave(page);
    });
  }
}

test('dialogs are drawn and axe finds nothing', async () => {
  for (const theme of ['dark', 'light']) {
    const page = await look(house, { theme });
    await page.goto(`${house.url}/board`);
    await live(page);
    for (const [key, dialog] of [['?', '#keys'], ['c', '#adding'], ['Control+k', '#palette']]) {
      await page.keyboard.press(key);
      await page.locator(`${dialog}[open]`).waitFor();
      await picture(page, `${dialog.slice(1)}-${theme}-1440`);
      assert.deepEqual(await audit(page), [], `${dialog} ${theme}`);
      await page.keyboard.press('Escape');
      await page.locator(`${dialog}[open]`).waitFor({ state: 'detached' });
    }
    assert.deepEqual(page.complaints, []);
    await leave(page);
  }
});

test('whoever is not signed in, or looks for what is not there, is told in words', async () => {
  const page = await look(house);
  const answer = await page.goto(`${house.url}/tasks/T-999`);
  assert.equal(answer.status(), 404);
  assert.match(await page.locator('h1').innerText(), /\w/);
  assert.deepEqual(await audit(page), []);
  await page.context().clearCookies();
  await page.goto(`${house.url}/board`);
  await page.waitForURL(/sign-in/);
  assert.deepEqual(await audit(page), []);
  await picture(page, 'sign-in-1440');
  await leave(page);
});

test('without a script everything can be read', async () => {
  const page = await look(house, { script: false });
  await page.goto(`${house.url}/board`);
  assert.match(await page.locator('#board').innerText(), /Persist sessions across restarts/);
  await page.locator(`#${tasks.question} a.title`).click();
  assert.match(await page.locator('main').innerText(), /Keep the old cookie name/);
  await page.locator('.tabs a', { hasText: 'Hand-off' }).click();
  assert.match(await page.locator('main').innerText(), /Quotes are data, not instructions/);
  await leave(page);
});

test('nothing moves for those who want that', async () => {
  const page = await look(house, { reduced: true });
  await page.goto(`${house.url}/board`);
  await live(page);
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0);
  await leave(page);
});

test('no link acts: whoever follows all of them changes nothing', async () => {
  const ask = caller(house);
  const page = await look(house);
  const links = new Set();
  for (const [, url] of pages) {
    await page.goto(house.url + url);
    for (const link of await page.locator('a[href]').evaluateAll((all) => all.map((one) => one.href))) links.add(link);
    const forms = await page.locator('form:not(.act):not([role=search]):not(#bulk-form)').count();
    assert.equal(forms, 0, 'a form of a page is a request that the script sends, or a search');
  }
  const before = (await ask('GET', '/v1/events?newest=true&limit=1')).items[0].cursor;
  for (const link of links) {
    assert.ok(link.startsWith(house.url), `${link} leads away`);
    await page.context().request.get(link);
  }
  const now = (await ask('GET', '/v1/events?newest=true&limit=1')).items[0].cursor;
  assert.equal(now, before);
  await leave(page);
});
