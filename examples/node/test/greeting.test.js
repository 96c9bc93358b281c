import assert from "node:assert";
import { test } from "node:test";
import { greeting } from "../greeting.js";

test("somebody is greeted by name", () => assert.equal(greeting("Ada"), "Hello, Ada!"));
