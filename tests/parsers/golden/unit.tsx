const a = () => <p/>;
