taxon_test(data UNITY 6 DEPS data LIBS ZLIB::ZLIB TurboJPEG::turbojpeg PNG::PNG LibArchive::LibArchive)
