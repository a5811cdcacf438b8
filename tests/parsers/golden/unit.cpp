namespace n { class A {}; }
