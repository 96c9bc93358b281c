/** A greeting for somebody. */
export const greeting = (name) => `Hello, ${name}!`;
