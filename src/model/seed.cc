// Keeps the module a library until its first source exists.
