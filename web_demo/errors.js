// Base class of the page's errors: `code` is for programs, `message` for people.

export class CodedError extends Error {
  constructor(code, message, options) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}
